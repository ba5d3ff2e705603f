"""What the Triton kernels promise beside drawn cases: every temperature rule, decoding, strange numbers, operators."""

import pytest
import torch
from agreement import OneMoreThanEntropy, compare, set_tiles
from cases import HEAD_DIM, HEADS, NORMALISERS

import strop
from strop.errors import StateError
from strop.kernels import IMPLEMENTATIONS, Mask, Request
from strop.kernels.triton import implementation, launch
from strop.kernels.triton.call import KernelCall
from strop.normalisers import AdaptiveTemperature, Softmax, Temperature
from strop.normalisers.fusion import TEMPERATURES
from strop.normalisers.on_heads import on_heads

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy, which computes both sides of a where
RULES = {kind: make for kind, make in NORMALISERS.items() if isinstance(make().fusion(), TEMPERATURES)}


def inputs(n_q, n_k, draw, d=HEAD_DIM, d_v=5, heads=HEADS, groups=2):
    shapes = (1, heads, n_q, d), (1, groups, n_k, d), (1, groups, n_k, d_v)
    return [torch.randn(shape, generator=draw) for shape in shapes]


@pytest.mark.parametrize("kind", RULES)
def test_every_temperature_rule_meets_the_definition(kind, draw, monkeypatch):
    set_tiles(monkeypatch, 32, 16)
    compare(inputs(9, 21, draw), Mask(diagonal=12), RULES[kind])


@pytest.mark.parametrize("diagonal", [-3, 0, 4])
def test_whole_tiles_below_and_across_the_triangle(diagonal, draw):
    compare(inputs(18, 36, draw, heads=1, groups=1), Mask(diagonal=diagonal), AdaptiveTemperature)


def test_rules_that_differ_by_head(draw):
    compare(inputs(9, 21, draw), Mask(), lambda: on_heads([0, 3], HEADS, AdaptiveTemperature(), Softmax(1.7)))


@pytest.mark.parametrize("kind", ["softmax", "adaptive with sink"])
@pytest.mark.parametrize("d", [100, 256])
def test_wide_heads(kind, d, draw, monkeypatch):
    set_tiles(monkeypatch, 16, 32)
    tensors = inputs(5, 40, draw, d=d, d_v=d - 1, heads=1, groups=1)
    compare(tensors, Mask(diagonal=33), RULES[kind], scale=d**-0.5)


def test_long_rows_in_the_tiles_of_a_card(draw, monkeypatch):
    monkeypatch.undo()
    tensors = inputs(70, 150, draw, d=64, d_v=64, heads=1, groups=1)
    for dtype in (torch.float32, torch.float16):
        compare(tensors, Mask(diagonal=80), AdaptiveTemperature, dtype, scale=0.125)


def test_decoding_is_cut_into_pieces(draw, monkeypatch):
    monkeypatch.undo()
    launched = []
    launch_one = launch._launch
    monkeypatch.setattr(
        launch,
        "_launch",
        lambda kernel, *rest, **more: (launched.append(kernel.__name__), launch_one(kernel, *rest, **more)),
    )
    compare(inputs(1, 1100, draw), Mask(), AdaptiveTemperature)
    assert {"measure_pieces", "attend_pieces", "merge_pieces"} <= set(launched)
    assert "attend_blocks" not in launched


@pytest.mark.parametrize("kind", ["softmax", "ssmax", "sink"])
def test_pieces_that_nobody_has_measured_are_rescaled(kind, draw, monkeypatch):
    set_tiles(monkeypatch, 16, 16, 2)
    query, key, value = inputs(3, 36, draw)
    compare([4 * query, key, value], Mask(), RULES[kind], stats=False)


def test_grouped_heads_and_broadcast_masks_are_not_copied(draw):
    keep = torch.ones(1, 1, 1, 21, dtype=torch.bool)
    assert launch._plane(keep)[1:] == (0, 0, 0, 1)
    assert launch._plane(keep.expand(2, 4, 9, 21))[1:] == (0, 0, 0, 1)
    q, k, v = inputs(9, 21, draw)
    given = launch._inputs(KernelCall(q, k, v, keep))
    assert given[1].pointer is k
    assert given[3].pointer is keep


@pytest.mark.parametrize("strange", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("pieces", [1, 2])
def test_strange_numbers_reach_only_rows_that_may_see_them(strange, pieces, draw, monkeypatch):
    set_tiles(monkeypatch, 16, 16, pieces)
    clean = inputs(9, 9, draw, heads=2, groups=2)
    for which, touched in ((0, [5]), (1, [5, 6, 7, 8]), (2, [5, 6, 7, 8])):
        tensors = [t.clone() for t in clean]
        tensors[which][0, 1, 5, 2] = strange
        expected, got = (
            strop_kernel.run(Request(*tensors, Mask(diagonal=0), 0.3, AdaptiveTemperature(), return_stats=True))
            for strop_kernel in (IMPLEMENTATIONS["reference"].load(), implementation)
        )
        rows = torch.ones(1, 2, 9, dtype=torch.bool)
        rows[0, 1, touched] = False
        torch.testing.assert_close(got[0][rows], expected[0][rows])
        if which == 2:
            torch.testing.assert_close(got[0], expected[0], equal_nan=True)
        elif strange != strange:
            assert got[0][~rows].isnan().all()
            torch.testing.assert_close(got[1].max, expected[1].max, equal_nan=True)


def test_bfloat16_is_raised_in_the_interpreter(draw):
    q, k, v = (t.bfloat16() for t in inputs(9, 21, draw))
    request = Request(q, k, v, Mask(), 0.3, AdaptiveTemperature())
    expected, _ = IMPLEMENTATIONS["reference"].load().run(request)
    got, _ = implementation.run(request)
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got, expected)


def test_empty_inputs_give_empty_or_zero_outputs():
    for batch, n_q, n_k in ((0, 3, 4), (2, 0, 4), (2, 3, 0)):
        q, k, v = (torch.zeros(batch, 1, n, 4, requires_grad=True) for n in (n_q, n_k, n_k))
        out, stats = implementation.run(Request(q, k, v, Mask(), 0.5, AdaptiveTemperature(), return_stats=True))
        assert out.shape == (batch, 1, n_q, 4)
        assert (out == 0).all()
        assert (stats.n_keys == n_k).all()
        out.sum().backward()


@pytest.mark.parametrize("shape", [(), (3,), (2, 2, 3)], ids=str)
def test_any_number_of_batch_dimensions(shape, draw):
    q, k, v = (torch.randn(*shape, n, 4, generator=draw) for n in (5, 6, 6))
    for keep in (None, torch.rand(5, 6, generator=draw) < 0.7):
        request = Request(q, k, v, Mask(keep), 0.5, AdaptiveTemperature())
        torch.testing.assert_close(implementation.run(request)[0], IMPLEMENTATIONS["reference"].load().run(request)[0])


def test_a_number_of_ones_own_is_learned_where_all_logits_are_large(draw):
    """The output is rounded to float16, and a logit of 100 would make much of it."""
    bias = 100 + torch.randn(1, HEADS, 16, 20, generator=draw)
    compare(inputs(16, 20, draw), Mask(bias=bias), OneMoreThanEntropy, torch.float16, stats=False)


def test_the_gradient_of_a_rows_logits_sums_to_nothing(draw):
    q, k, v = (t.half() for t in inputs(9, 21, draw))
    bias = torch.zeros(1, HEADS, 9, 21, requires_grad=True)
    out, _ = implementation.run(Request(q, k, v, Mask(bias=bias), 0.3, Softmax(2.0)))
    (out.float() * torch.randn(out.shape, generator=draw)).sum().backward()
    assert bias.grad.abs().max() > 0.1
    assert bias.grad.sum(-1).abs().max() < 1e-5


class Listener(Temperature):
    """Keeps what it is told of the rows."""

    def inverse_temperature(self, stats):
        self.told = stats.map(torch.detach)
        return torch.ones_like(stats.mean)


def test_a_rule_of_ones_own_is_told_all_statistics(draw):
    q, k, v = inputs(7, 40, draw, groups=HEADS)
    keep = (torch.rand(1, 1, 7, 40, generator=draw) < 0.5) & (torch.arange(7) != 3)[:, None]
    listener = Listener()
    implementation.run(Request(q, k, v, Mask(keep), 0.3, listener))
    expected = strop.RowStats.of(0.3 * q @ k.mT, keep)
    for name, told, truth in zip(expected._fields, listener.told, expected, strict=True):
        torch.testing.assert_close(told, truth, msg=name)


def test_the_largest_logit_has_no_gradient_and_says_so(draw):
    q, k, v = (t.requires_grad_() for t in inputs(5, 6, draw))
    _, stats = implementation.run(Request(q, k, v, Mask(), 0.3, Softmax(), return_stats=True))
    with pytest.raises(StateError, match="no gradient of a row's largest and smallest logit"):
        stats.max.sum().backward()


def make_call(draw, **changes):
    query, key, value = (t.requires_grad_() for t in inputs(5, 6, draw, heads=2, groups=1))
    bias = torch.randn(1, 1, 5, 6, generator=draw, requires_grad=True)
    call = KernelCall(query, key, value, bias=bias, coefficients=[-0.1, 1.5, 1.0], threshold=0.5, scale=0.3, **changes)
    return call._replace(sink=torch.randn(1, 2, 5, generator=draw, requires_grad=True))


def test_the_operators_are_what_torch_asks_of_operators(draw):
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")  # the fourth asks the gradient of max
    call = make_call(draw)
    for given in (call, call._replace(value=None, sink=None, coefficients=[])):
        torch.library.opcheck(torch.ops.strop.triton_attention.default, tuple(given), test_utils=checks)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch's own, while it traces
def test_compiled_attention_is_eager_attention(draw, monkeypatch):
    listing = IMPLEMENTATIONS["triton"]
    monkeypatch.setitem(IMPLEMENTATIONS, "triton", listing._replace(devices=None))
    rule = AdaptiveTemperature()

    def attend(q, k, v):
        return strop.attention(q, k, v, is_causal=True, normaliser=rule, impl="triton")

    torch.compiler.reset()
    compiled = torch.compile(attend, fullgraph=True, backend="aot_eager")
    leaves = [t.requires_grad_() for t in inputs(9, 9, draw, groups=HEADS)]
    expected = torch.autograd.grad(attend(*leaves).sum(), leaves)
    for got, truth in zip(torch.autograd.grad(compiled(*leaves).sum(), leaves), expected, strict=True):
        torch.testing.assert_close(got, truth)


def test_an_exported_program_holds_one_operator(draw, monkeypatch):
    monkeypatch.setitem(IMPLEMENTATIONS, "triton", IMPLEMENTATIONS["triton"]._replace(devices=None))

    rule = AdaptiveTemperature()

    class Attend(torch.nn.Module):
        def forward(self, q, k, v):
            return strop.attention(q, k, v, is_causal=True, normaliser=rule, impl="triton")

    tensors = tuple(inputs(9, 9, draw, groups=HEADS))
    program = torch.export.export(Attend(), tensors)
    assert "strop.triton_attention" in str(program.graph)
    torch.testing.assert_close(program.module()(*tensors), Attend()(*tensors))
