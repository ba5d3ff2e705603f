"""What runs on CUDA, seen without a card: fake tensors have a device, shapes and dtypes, and no numbers.

torch's own function is recorded as it is called, the kernels that are called by their own names as operators. Nothing
may be made on another device, and nothing may ask for a number, which on a card would mean to wait for it.
"""

import contextlib
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from cases import MASKS, NORMALISERS, mask_arguments
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import strop
from strop.edges.forms import TEMPERATURES
from strop.edges.parts import PARTS
from strop.kernels import IMPLEMENTATIONS, Mask, Request, dispatch, fused_calls
from strop.kernels.plain import TorchMask
from strop.normalisers import NAMES, AdaptiveTemperature, Softmax, WithSink, by_name
from strop.normalisers.on_heads import on_heads

HEADS, D = 4, 64
NEEDED = {
    "log_n": {"trained_length": 64}, "relative_log_n": {"trained_length": 64}, "yarn": {"trained_length": 64},
    "infoscale": {"trained_length": 64, "head_dim": D},
    "power_n": {"trained_length": 64}, "sigmoid": {"trained_length": 64}, "top_k": {"k": 3},
    "qassmax": {"heads": HEADS, "head_dim": D},
    "selective_temperature": {"heads": HEADS, "head_dim": D}, "asentmax": {"heads": HEADS, "head_dim": D},
    "tra": {"heads": HEADS, "head_dim": D}, "differential": {"heads": HEADS}, "multi_token": {"heads": HEADS},
}  # fmt: skip
KNOWN = [
    "softmax", "log_n", "relative_log_n", "llama4", "yarn", "infoscale", "ssmax", "power_n", "qassmax",
    "selective_temperature",
]  # fmt: skip
MEASURED = ["adaptive", "off_by_one", "sink"]
WHOLE = ["selective", "differential", "multi_token"]


class Called(NamedTuple):
    """One call of attention: by which way, in which dtype, under which mask."""

    name: str
    dtype: torch.dtype
    keys: int
    mask: object
    scale: float


class Calls(TorchFunctionMode):
    """Writes down calls of torch's public function."""

    def __init__(self, found):
        super().__init__()
        self.found = found

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention:
            mask = "causal" if args[5] else args[3]
            self.found.append(Called("public", args[0].dtype, args[1].shape[1], mask, kwargs["scale"]))
        func = WRITTEN.get(func, func)
        return func(*args, **kwargs)


@pytest.fixture(autouse=True)
def _no_triton(monkeypatch):
    """What runs where triton is missing; test_triton_dispatch.py has what runs where it is not."""
    monkeypatch.setattr(IMPLEMENTATIONS["triton"].load(), "find_obstacle", lambda _: "triton is not installed")


def take(x, index):
    """x[index] by operators."""
    index = index if isinstance(index, tuple) else (index,)
    dim = 0
    for i, part in enumerate(index):
        if part is Ellipsis:
            dim = x.ndim - sum(other is not None for other in index[i + 1 :])
        elif isinstance(part, int):
            x = x.select(dim, part)
        else:
            if part is None:
                x = x.unsqueeze(dim)
            elif isinstance(part, slice):
                x = torch.ops.aten.slice(x, dim, part.start, part.stop, part.step or 1)
            else:
                x = torch.ops.aten.index(x, [None] * dim + [part])
            dim += 1
    return x


WRITTEN = {
    torch.Tensor.__getitem__: take,
    torch.Tensor.__invert__: torch.ops.aten.bitwise_not,
}
"""What torch writes for itself, asking for the device, which a CPU build has not → the same by operators."""


class OnTheCard(TorchDispatchMode):
    """Writes down the memory-efficient kernel and Triton's, and fails on any tensor of rows that is made elsewhere."""

    def __init__(self, found):
        super().__init__()
        self.found = found

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if "efficient_attention" in str(func):
            mask = "causal" if args[6:7] == (True,) else args[3]
            self.found.append(Called("efficient", args[0].dtype, args[1].shape[1], mask, kwargs["scale"]))
        if "triton_attention" in str(func):
            way = "triton" if args[2] is not None else "triton measures"
            self.found.append(Called(way, args[0].dtype, args[1].shape[1], args[7], args[8]))
        elsewhere = [x for x in tree_leaves(out) if isinstance(x, torch.Tensor) and x.ndim and x.device.type != "cuda"]
        assert not elsewhere, (func, elsewhere)
        return out


@contextlib.contextmanager
def recorded():
    found = []
    with OnTheCard(found), Calls(found):
        yield found


def on_cuda(*shape, dtype=torch.bfloat16):
    return torch.empty(shape, dtype=dtype, device="cuda")


def move(rule):
    """Put a normaliser's parameters on the fake card."""
    for module in rule.modules():
        for name, parameter in module._parameters.items():
            module._parameters[name] = on_cuda(*parameter.shape, dtype=parameter.dtype)


def attend(make, dtype=torch.bfloat16, key_heads=HEADS, impl="auto", n_k=32, **arguments):
    """Return which implementation ran, and its calls."""
    ran, rule = [], make()
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad(), pytest.MonkeyPatch.context() as patch:
        move(rule)
        q, k, v = (on_cuda(2, h, n, D, dtype=dtype) for h, n in ((HEADS, 32), (key_heads, n_k), (key_heads, n_k)))
        arguments = {name: value() if callable(value) else value for name, value in arguments.items()}
        choose = dispatch.choose
        patch.setattr(dispatch, "choose", lambda *given: ran.append(choose(*given)) or ran[-1])
        with recorded() as found:
            out = strop.attention(q, k, v, normaliser=rule, enable_gqa=True, impl=impl, **arguments)
            out = out[0] if arguments.get("return_stats") else out
    assert (out.shape, out.dtype, out.device.type) == ((2, HEADS, 32, D), dtype, "cuda")
    [name] = [name for name, listing in IMPLEMENTATIONS.items() if listing.load() is ran[0]]
    return name, found


def named(name):
    return lambda: by_name(name, **NEEDED.get(name, {}))


def test_every_normaliser_is_in_one_of_the_lists():
    assert set(KNOWN + MEASURED + WHOLE) < set(NAMES)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_each_normaliser_has_its_way(name, dtype):
    ran, calls = attend(named(name), dtype, is_causal=True)
    ways = [(call.name, call.dtype, call.mask) for call in calls]
    if name in KNOWN:  # in the inputs' own dtype, which the kernels add up in float32
        assert (ran, ways) == ("scaled_query", [("public", dtype, "causal")])
    elif name == "adaptive":  # the entropy in float32 always
        assert (ran, ways) == ("fused_calls", [("efficient", torch.float32, "causal"), ("public", dtype, "causal")])
    elif name in MEASURED:  # a sink wants the log-sum-exp
        assert (ran, ways) == ("fused_calls", [("public", dtype, "causal"), ("efficient", torch.float32, "causal")])
    else:
        assert (ran, ways) == ("reference" if name in WHOLE else "streaming", [])


@pytest.mark.parametrize("form", TEMPERATURES)
def test_calibrated_edges(form):
    ran, calls = attend(lambda: PARTS[form].start(torch.nn.Identity(), HEADS, 1))
    assert ran == ("fused_calls" if form == "polynomial" else "scaled_query")
    assert [call.name for call in calls] == (["efficient", "public"] if form == "polynomial" else ["public"])


def test_mixtures_over_heads_take_the_way_of_the_more_demanding():
    for others, expected in ((Softmax(), "scaled_query"), (AdaptiveTemperature(), "fused_calls")):
        assert attend(lambda others=others: on_heads([1, 2], HEADS, Softmax(2.0), others))[0] == expected
    sunk = on_heads([1], HEADS, by_name("sink", heads=HEADS), Softmax(2.0))
    assert attend(lambda: sunk)[0] == "fused_calls"
    sunk = WithSink(Softmax(2.0), torch.nn.Parameter(torch.zeros(HEADS, 1)))
    assert attend(lambda: sunk)[0] == "fused_calls"


def test_one_beta_for_all_rows_rounds_nothing():
    [call] = attend(lambda: Softmax(3.0), scale=0.5)[1]
    assert call.scale == 1.5
    [call] = attend(lambda: Softmax(-1.0), scale=0.5)[1]  # flash kernels take the largest logit before they scale it
    assert call.scale == 0.5


@pytest.mark.parametrize("name", ["ssmax", "adaptive"])
def test_grouped_keys_are_repeated_only_where_the_kernel_wants_it(name):
    kept = attend(named(name), key_heads=2)[1][-1]
    assert (kept.name, kept.keys, kept.mask) == ("public", 2, None)
    for more in ({"attn_mask": lambda: on_cuda(32, 32, dtype=torch.bool)}, {"dtype": torch.float32}):
        assert [call.keys for call in attend(named(name), key_heads=2, **more)[1]][-1] == HEADS
    assert attend(named(name), key_heads=2, n_k=48, is_causal=True)[1][-1].keys == HEADS  # flash's triangle is square
    assert attend(named("adaptive"), key_heads=2)[1][0].keys == HEADS  # the memory-efficient kernel knows no groups


def test_masks_arrive_as_torch_wants_them():
    triangle = attend(named("ssmax"), n_k=48, attn_mask=lambda: on_cuda(2, 1, 32, 48, dtype=torch.bool))[1][0].mask
    assert (triangle.dtype, triangle.shape) == (torch.bool, (2, 1, 32, 48))
    added = attend(named("softmax"), attn_mask=lambda: on_cuda(1, HEADS, 32, 32))[1][0].mask
    assert (added.dtype, added.shape) == (torch.bfloat16, (1, HEADS, 32, 32))
    bias = attend(named("adaptive"), n_k=41, attn_mask=lambda: on_cuda(2, 1, 1, 41, dtype=torch.bool))[1][0].mask
    assert (bias.dtype, bias.shape, bias.stride(-2) % 16) == (torch.float32, (2, HEADS, 32, 41), 0)


@pytest.mark.parametrize(
    ("name", "more", "expected"),
    [
        ("ssmax", {"dropout_p": 0.1}, "scaled_query"),
        ("adaptive", {"dropout_p": 0.1}, "fused_calls"),
        ("ssmax", {"return_stats": True}, "streaming"),
        ("adaptive", {"softcap": 2.0}, "streaming"),
        ("ssmax", {"attn_mask": lambda: on_cuda(1, 32)}, "streaming"),  # β·bias would be as large as the logits
        ("ssmax", {"attn_mask": lambda: on_cuda(32, 32)}, "scaled_query"),
        ("adaptive", {"attn_mask": lambda: on_cuda(32, 32)}, "streaming"),
    ],
)
def test_what_one_call_cannot_express_goes_on(name, more, expected):
    assert attend(named(name), **more)[0] == expected


def test_on_other_devices_what_is_known_is_scaled_and_the_rest_streams():
    rules = ((Softmax(2.0), "scaled_query"), (AdaptiveTemperature(), "streaming"))
    for device in ("mps", "xpu", "meta"):
        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
            q = torch.empty(1, HEADS, 8, D, device=device)
            for rule, expected in rules:
                chosen = dispatch.choose("auto", Request(q, q, q, Mask(diagonal=0), 1.0, rule))
                assert chosen is IMPLEMENTATIONS[expected].load()


def efficient(query, key, value, bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, *, scale=None):
    """What CUDA's memory-efficient kernel computes, as its callers must take it: no groups, padded log-sum-exp."""
    assert query.shape[1] == key.shape[1] == value.shape[1]
    assert query.shape[-1] % 16 == value.shape[-1] % 16 == 0
    assert bias is None or (bias.shape == (*query.shape[:-1], key.shape[-2]) and bias.stride(-2) % 16 == 0)
    logits = scale * query @ key.mT + (0.0 if bias is None else bias)
    if is_causal:
        logits = logits.masked_fill(torch.ones_like(logits).tril() == 0, -torch.inf)
    lse, nothing = F.pad(logits.logsumexp(-1), (0, -query.shape[-2] % 32), value=torch.nan), torch.zeros(())
    return logits.softmax(-1) @ value, lse, nothing, nothing  # NaN for a row that sees nothing


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("kind", ["adaptive", "adaptive with sink", "sink"])
def test_the_calls_on_cuda_add_up_to_the_definition(kind, mask, draw, monkeypatch):
    """The same calls on the CPU, with the kernel's own formula in its place."""
    if mask == "additive":
        return
    monkeypatch.setitem(fused_calls.KERNELS, "cpu", fused_calls._by_efficient)
    q, k, v = (
        torch.randn(2, h, n, d, generator=draw, dtype=torch.float64) for h, n, d in ((4, 7, 8), (2, 41, 8), (2, 41, 5))
    )
    arguments = mask_arguments(mask, 2, 7, 41, draw) | {"normaliser": NORMALISERS[kind](), "enable_gqa": True}
    library = torch.library.Library("aten", "IMPL")
    library.impl("_scaled_dot_product_efficient_attention", efficient, "CPU")
    try:
        with torch.no_grad():
            found = strop.attention(q, k, v, impl="fused_calls", **arguments)
            torch.testing.assert_close(found, strop.attention(q, k, v, impl="reference", **arguments))
    finally:
        library._destroy()


def test_the_memory_efficient_kernel_is_given_aligned_rows():
    whole = torch.arange(2.0 * 3 * 16 * 33).view(2, 3, 16, 33)
    for part in (whole[..., :16], whole[..., 1:17], whole[..., :16].mT):
        aligned = fused_calls._align(part)
        assert torch.equal(aligned, part)
        assert aligned.stride(-1) == 1
        assert all(step % 4 == 0 for step in (*aligned.stride()[:-1], aligned.storage_offset()))
    kept = torch.zeros(2, 3, 5, 32)
    assert fused_calls._align(kept) is kept


def test_every_row_sees_something_so_that_no_kernel_makes_a_nan(draw):
    q = torch.randn(2, 4, 7, 8, generator=draw)
    keep = torch.rand(2, 1, 7, 7, generator=draw) < 0.2
    for mask in (Mask(keep), Mask(diagonal=-3), Mask(keep, diagonal=0)):
        seen = TorchMask.of(Request(q, q, q, mask, 1.0, Softmax()))
        assert seen.keep.any(-1).all()
        assert not seen.sees.all()
        assert torch.equal(seen.keep & seen.sees[..., None], mask.dense(7, 7, q.device).expand_as(seen.keep))
