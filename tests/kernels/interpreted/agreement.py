"""How a call of the Triton kernels is compared with the definition in float64."""

import torch

from strop.kernels import Mask, Request, reference
from strop.kernels.triton import implementation, launch
from strop.kernels.triton.tiles import Tiles
from strop.normalisers import Temperature


class OneMoreThanEntropy(Temperature):
    """A user's own rule, with a learned number, of statistics that only a pass can tell."""

    def __init__(self):
        super().__init__()
        self.strength = torch.nn.Parameter(torch.tensor(0.4))

    def inverse_temperature(self, stats):
        return 1.0 + self.strength * stats.entropy


def set_tiles(patch, rows, keys, pieces=1):
    """Let the kernels take tiles of this size, and cut the keys into so many pieces."""
    patch.setattr(launch, "find_tiles", lambda *_: Tiles(rows, keys, 4, 1))
    patch.setattr(launch, "count_pieces", lambda *_: pieces)


def run(kernel, tensors, mask, rule, dtype, stats, **settings):
    """Output, statistics and every gradient in float64, by name."""
    leaves = [t.detach().to(dtype).requires_grad_() for t in tensors]
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    bias = None if mask.bias is None else mask.bias.detach().to(wide).requires_grad_()
    rule = rule.to(wide)
    learned = [p for p in rule.parameters() if p.requires_grad]
    request = Request(*leaves, Mask(mask.keep, bias, mask.diagonal), normaliser=rule, return_stats=stats, **settings)
    out, measured = kernel.run(request)
    assert out.dtype == dtype
    results = {"out": out} | ({} if measured is None else measured._asdict())
    inputs = [*leaves, *(() if bias is None else (bias,)), *learned]
    grads = torch.autograd.grad(add_up(results), inputs, allow_unused=True)
    names = [
        "d query",
        "d key",
        "d value",
        *(() if bias is None else ("d bias",)),
        *(f"d {i}" for i in range(len(learned))),
    ]
    found = results | {
        name: torch.zeros_like(x) if g is None else g for name, g, x in zip(names, grads, inputs, strict=True)
    }
    return {name: value.detach().double() for name, value in found.items()}


def add_up(results):
    """One number that depends on the output and on what rows say of themselves, and on each entry differently."""
    total = 0.0
    for name in results.keys() & {"out", "logsumexp", "mean"}:
        result = results[name]
        cotangent = torch.linspace(-1, 1, result.numel(), dtype=torch.float64).view_as(result)
        cotangent = (cotangent * (1 if name == "out" else 0.1)).to(result.dtype)
        total = total + torch.where(result.isfinite(), result * cotangent, 0.0).sum().to(torch.float64)
    return total


def run_in_orders(tensors, mask, rule, *rest, **settings):
    """The definition with its features in three orders, since one may be lucky; in one if a rule knows them."""
    query, key, value = tensors
    for i in range(1 if rule.changes_query else 3):
        order = torch.arange(query.shape[-1]).roll(i * query.shape[-1] // 3)
        found = run(
            reference.implementation, [query[..., order], key[..., order], value], mask, rule, *rest, **settings
        )
        yield found | {name: found[name][..., order.argsort()] for name in ("d query", "d key")}


def assert_within_budget(got, plains, exact, dtype, what=""):
    """At most twice the error that the definition makes in the same dtype, plus rounding."""
    assert got.keys() == exact.keys()
    for name, truth in exact.items():
        seen = truth.isfinite()
        assert torch.equal(got[name].isfinite(), seen), (what, name)
        assert torch.equal(got[name][~seen], truth[~seen]) or truth.isnan().any(), (what, name)
        if not seen.any():
            continue
        size = truth[seen].abs().max().item()
        eps = torch.finfo(dtype).eps if name == "out" or name.startswith("d ") else torch.finfo(torch.float32).eps
        own = max((plain[name] - truth)[seen].abs().max().item() for plain in plains)
        budget = 2 * own + 16 * eps * (1 + size)
        error = (got[name] - truth)[seen].abs().max().item()
        assert error <= budget, f"{what}: {name} is off by {error:.2e}, budget {budget:.2e}"


def compare(tensors, mask, make_rule, dtype=torch.float32, stats=True, **settings):
    """Meet the definition: the same numbers, rounded once, in float64, in the dtype, and by the kernels."""
    tensors = [t.to(dtype) for t in tensors]
    if mask.bias is not None:
        mask = Mask(mask.keep, mask.bias.float(), mask.diagonal)
    settings = {"scale": 0.3, **settings}
    exact = run(reference.implementation, tensors, mask, make_rule(), torch.float64, stats, **settings)
    plains = list(run_in_orders(tensors, mask, make_rule(), dtype, stats, **settings))
    got = run(implementation, tensors, mask, make_rule(), dtype, stats, **settings)
    assert_within_budget(got, plains, exact, dtype, (make_rule(), [tuple(t.shape) for t in tensors], settings))
