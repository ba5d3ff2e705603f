"""Around the native kernel: threads, bits, gradients, torch.compile, and plain words where it cannot run."""

import gc

import pytest
import torch
from cases import built

import strop
from strop.kernels import native, reference
from strop.kernels.dispatch import choose
from strop.kernels.mask import Mask
from strop.kernels.native import abi
from strop.kernels.request import Request
from strop.normalisers import Temperature

SETTINGS = {"scale": 0.3, "softcap": None, "dropout_p": 0.0, "return_stats": True}
ADAPTIVE = strop.normalisers.AdaptiveTemperature()


def inputs(draw, n_q=70, n_k=300, d=16, heads=4, kv_heads=2):
    return [torch.randn(2, h, n, d, generator=draw) for h, n in ((heads, n_q), (kv_heads, n_k), (kv_heads, n_k))]


def results(tensors, mask=None, level=None, **settings):
    out, stats = native.implementation.run(
        Request(*tensors, mask or Mask(), **{**SETTINGS, "normaliser": ADAPTIVE, **settings}), level
    )
    return [out, *(stats or ())]


def test_status_says_what_runs_or_why_not():
    status = native.status()
    assert status.loaded == (status.reason is None) == (status.level in abi.LEVELS)
    assert status.threads == torch.get_num_threads()


@built
@pytest.mark.parametrize("n_q", [1, 70])
@pytest.mark.parametrize("kind", ["softmax", "adaptive", "entmax15"])
@pytest.mark.parametrize("team", ["torch", "own"])
def test_same_bits_with_any_number_of_threads_and_on_every_run(n_q, kind, team, draw, monkeypatch):
    kernel = abi.library()
    if team == "own":
        monkeypatch.setattr(kernel, "team", None)
    tensors = inputs(draw, n_q=n_q, n_k=5000)
    rule = strop.normalisers.by_name(kind)
    before = torch.get_num_threads()
    try:
        runs = []
        for threads in (1, 2, 3, 2):
            torch.set_num_threads(threads)
            runs.append(results(tensors, normaliser=rule))
    finally:
        torch.set_num_threads(before)
    for run in runs[1:]:
        for a, b in zip(runs[0], run, strict=True):
            assert torch.equal(a, b)


@built
def test_units_that_are_smaller_for_more_threads_give_the_same_bits(draw):
    tensors = inputs(draw, n_q=70, n_k=20_000, d=4, heads=1, kv_heads=1)  # 64 rows keep 5 MB, four threads 4 MB each
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(4)
        many = results(tensors)
        torch.set_num_threads(1)
        one = results(tensors)
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(many, one, strict=True))


@built
def test_the_cache_of_a_model_is_read_where_it_lies(draw):
    """[B, n, H, d] transposed, a longer cache sliced, a broadcast mask: no copy is made."""
    cache = torch.randn(2, 400, 2, 16, generator=draw).transpose(1, 2)
    q = torch.randn(2, 70, 4, 16, generator=draw).transpose(1, 2)
    k, v = cache[:, :, :300], cache[:, :, 100:]
    keep = (torch.arange(300) < 250).expand(2, 4, 70, 300)
    expected = results([q.contiguous(), k.contiguous(), v.contiguous()], Mask(keep.contiguous()))
    copies = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if "clone" in str(func) or "copy" in str(func):
                copies.append(str(func))
            return func(*args, **(kwargs or {}))

    with Watch():
        got = results([q, k, v], Mask(keep))
    assert copies == []
    for a, b in zip(got, expected, strict=True):
        assert torch.equal(a, b)


@built
def test_auto_trains_by_the_kernel(draw):
    tensors, leaves = inputs(draw), [t.requires_grad_() for t in inputs(draw)]

    def chosen(given, normaliser=ADAPTIVE, **more):
        return choose("auto", Request(*given, Mask(), 1.0, normaliser, **more))

    for rule in (ADAPTIVE, strop.normalisers.SSMax(4), strop.normalisers.Entmax15(), strop.normalisers.Softmax()):
        assert chosen(tensors, rule) is native.implementation
        assert chosen(leaves, rule) is native.implementation
        assert chosen(leaves, rule, return_stats=True) is native.implementation


@built
def test_second_derivatives_are_refused(draw):
    leaves = [t.requires_grad_() for t in inputs(draw, 5, 6)]
    out, _ = native.implementation.run(Request(*leaves, Mask(), normaliser=strop.normalisers.Softmax(), **SETTINGS))
    with pytest.raises(RuntimeError, match="has no second derivatives"):
        torch.autograd.grad(out.sum(), leaves[0], create_graph=True)


@built
def test_training_keeps_memory_linear(draw):
    """What is saved for the backward pass is the inputs and some numbers a row, never a matrix of n_q × n_k."""
    leaves = [torch.randn(1, 1, 2000, 4, generator=draw).requires_grad_() for _ in range(3)]
    gc.collect()
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.numel()) or t, lambda t: t):
        native.implementation.run(
            Request(*leaves, Mask(diagonal=0), **SETTINGS, normaliser=strop.normalisers.AdaptiveTemperature())
        )
    assert saved
    assert max(saved) <= 2000 * 5


class HalfEntropy(Temperature):
    """A rule that the kernel does not know."""

    uses = "entropy"

    def inverse_temperature(self, stats):
        return 1.0 + 0.5 * stats.entropy


@built
def test_any_temperature_runs_through_the_statistics(draw):
    tensors = inputs(draw)
    for mask in (Mask(), Mask(diagonal=-5)):
        exact, _ = reference.implementation.run(
            Request(*(t.double() for t in tensors), mask, normaliser=HalfEntropy(), **SETTINGS)
        )
        got = results(tensors, mask, normaliser=HalfEntropy())
        torch.testing.assert_close(got[0].double(), exact, rtol=1e-5, atol=1e-5)


@built
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch's own, while it traces
@pytest.mark.parametrize(
    "rule",
    [strop.normalisers.Softmax(), strop.normalisers.AdaptiveTemperature(), strop.normalisers.LogN(9), HalfEntropy()],
    ids=str,
)
def test_compiled_in_one_graph(rule, draw):
    tensors = inputs(draw, 9, 40)
    torch.compiler.reset()
    mask = Mask(diagonal=31)

    def attend(*t):
        if native.implementation.find_obstacle(Request(*t, mask, normaliser=rule, **SETTINGS)) is not None:
            return []
        return results(t, mask, normaliser=rule)

    compiled = torch.compile(attend, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        for a, b in zip(compiled(*tensors), attend(*tensors), strict=True):
            assert torch.equal(a, b)


@built
def test_what_it_cannot_do_it_says(draw):
    q, k, v = inputs(draw, 5, 6)
    request = Request(q, k, v, Mask(), normaliser=strop.normalisers.Softmax(), **SETTINGS)
    assert native.implementation.find_obstacle(request) is None
    assert "float64" in native.implementation.find_obstacle(
        request._replace(query=q.double(), key=k.double(), value=v.double())
    )
    assert "dropout" in native.implementation.find_obstacle(request._replace(dropout_p=0.5))
    assert "TopK is neither" in native.implementation.find_obstacle(
        request._replace(normaliser=strop.normalisers.TopK(2))
    )


@built
def test_an_unknown_instruction_set_is_refused(draw, monkeypatch):
    kernel = abi.library()
    monkeypatch.setattr(abi, "LEVELS", (*abi.LEVELS, "avx1024"))
    with pytest.raises(ValueError, match="level must be one of"):
        kernel.run(abi.Args(), "avx1024")


def test_without_the_library_everything_else_works(draw, monkeypatch):
    """As on a machine that had no compiler."""
    why = "the native kernel was not built"
    monkeypatch.setattr(native, "library", lambda: why)
    monkeypatch.setattr(native, "MISSING", why)
    q, k, v = inputs(draw, 5, 6, kv_heads=4)
    assert native.status() == native.Status(False, why, None, (), torch.get_num_threads(), None)
    assert (
        native.implementation.find_obstacle(
            Request(q, k, v, Mask(), normaliser=strop.normalisers.Softmax(), **SETTINGS)
        )
        == why
    )
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(strop.attention(q, k, v), expected)


def test_a_stale_or_broken_library_is_named(monkeypatch, tmp_path):
    (tmp_path / "_native.so").write_bytes(b"not a library")
    monkeypatch.setattr(abi, "__file__", str(tmp_path / "abi.py"))
    assert "could not be loaded" in abi.library.__wrapped__()
    (tmp_path / "_native.so").unlink()
    assert "was not built" in abi.library.__wrapped__()


@built
@pytest.mark.parametrize("n_q", [1, 40])
@pytest.mark.parametrize("level", native.status().levels)
def test_bfloat16_is_float32_inside_rounded_once_to_nearest(n_q, level, draw):
    tensors = [t.bfloat16() for t in inputs(draw, n_q=n_q)]
    narrow, wide = (results(t, level=level) for t in (tensors, [t.float() for t in tensors]))
    assert torch.equal(narrow[0], wide[0].bfloat16())
    for a, b in zip(narrow[1:], wide[1:], strict=True):
        assert torch.equal(a, b)
