"""RowStats against the definitions written out, and the algebra of `merge`."""

import math

import torch
from cases import rows
from hypothesis import given
from hypothesis import strategies as st

from strop.sharpness import RowStats, entropy_of

TINY = 1e-12


def close(a: RowStats, b: RowStats) -> None:
    for name, x, y in zip(RowStats._fields, a, b, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-10, atol=1e-10, msg=name)


@given(rows())
def test_statistics_equal_their_definitions_row_by_row(case):
    logits, keep = case
    stats = RowStats.of(logits, keep)
    for i in range(logits.shape[0]):
        seen = logits[i] if keep is None else logits[i][keep[i]]
        assert stats.n_keys[i] == len(seen)
        if len(seen) == 0:
            assert stats.max[i] == -torch.inf
            assert stats.min[i] == torch.inf
            assert stats.logsumexp[i] == -torch.inf
            assert (stats.mean[i], stats.entropy[i], stats.top_weight[i], stats.spread[i]) == (0, 0, 0, 0)
            continue
        p = seen.softmax(0)
        assert stats.max[i] == seen.max()
        assert stats.min[i] == seen.min()
        assert math.isclose(stats.logsumexp[i], seen.logsumexp(0), rel_tol=1e-12, abs_tol=1e-12)
        assert math.isclose(stats.mean[i], (p * seen).sum(), rel_tol=1e-9, abs_tol=1e-9)
        assert math.isclose(stats.entropy[i], entropy_of(p), rel_tol=1e-7, abs_tol=1e-9)
        assert math.isclose(stats.top_weight[i], p.max(), rel_tol=1e-9)
        assert math.isclose(stats.spread[i], seen.max() - seen.min(), rel_tol=1e-9)
        assert -TINY <= stats.entropy[i] <= math.log(len(seen)) + 1e-9
        assert math.isclose(stats.effective_keys[i], stats.entropy[i].exp(), rel_tol=1e-12)


@given(rows(), st.data())
def test_merging_any_split_gives_the_whole(case, data):
    logits, keep = case
    cuts = sorted(data.draw(st.lists(st.integers(0, logits.shape[-1]), max_size=3)))
    bounds = list(zip([0, *cuts], [*cuts, logits.shape[-1]], strict=True))
    parts = [RowStats.of(logits[:, a:b], None if keep is None else keep[:, a:b]) for a, b in bounds]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merge(part)
    close(merged, RowStats.of(logits, keep))


@given(rows(), rows(), rows())
def test_merge_is_associative_and_commutative_with_the_empty_row_as_identity(a, b, c):
    x, y, z = (RowStats.of(*case).map(lambda field: field[:1]) for case in (a, b, c))
    close(x.merge(y), y.merge(x))
    close(x.merge(y).merge(z), x.merge(y.merge(z)))
    close(x.merge(RowStats.empty((1,), x.mean)), x)


def test_gradients_are_right_and_finite_where_rows_see_nothing(draw):
    logits = torch.randn(3, 5, generator=draw, dtype=torch.float64, requires_grad=True)
    keep = torch.tensor([[1, 1, 0, 1, 0], [0, 0, 0, 0, 0], [0, 0, 1, 0, 0]], dtype=torch.bool)
    for name in ("entropy", "logsumexp", "mean", "top_weight", "spread", "effective_keys"):

        def measure(x, name=name):
            return getattr(RowStats.of(x, keep), name)[[0, 2]]

        assert torch.autograd.gradcheck(measure, logits)
        whole = getattr(RowStats.of(logits, keep), name)
        (grad,) = torch.autograd.grad(torch.where(whole.isfinite(), whole, 0.0).sum(), logits)
        assert grad.isfinite().all(), name
        assert (grad[~keep] == 0).all(), name


def test_merged_gradients_of_two_empty_rows_are_finite():
    logits = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
    nothing = RowStats.of(logits, torch.zeros(1, 2, dtype=torch.bool))
    (grad,) = torch.autograd.grad(nothing.merge(nothing).entropy.sum(), logits)
    assert (grad == 0).all()


def test_nan_stays_in_its_row():
    logits = torch.zeros(2, 3)
    logits[0, 1] = torch.nan
    assert RowStats.of(logits).entropy.isnan().tolist() == [True, False]
    hidden = torch.tensor([[True, False, True]])
    assert not RowStats.of(logits, hidden).entropy.isnan().any()


def test_half_precision_is_measured_in_float32(draw):
    logits = torch.randn(2, 9, generator=draw).bfloat16()
    close(RowStats.of(logits), RowStats.of(logits.float()))


def test_no_keys_at_all():
    stats = RowStats.of(torch.zeros(2, 0))
    close(stats, RowStats.empty((2,), torch.zeros(())))
