"""RowStats against the definitions written out, and the algebra of `merge`."""

import math

import pytest
import torch
from cases import rows
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses import FakeTensorMode

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


def test_repr_says_shapes_and_means():
    stats = RowStats.of(torch.tensor([[[2.0, 1.0, 0.0], [0.0, 0.0, 0.0]]]), torch.ones(2, 3, dtype=torch.bool).tril(1))
    assert repr(stats) == "RowStats(rows=(1, 2): n_keys 2.5, entropy 0.84 nats, top weight 0.53, spread 0.5)"
    assert f"{stats}" == str(stats) == repr(stats)
    assert len(repr(RowStats.of(torch.zeros(64, 256)))) < 100


@pytest.mark.parametrize(
    ("stats", "shown"),
    [
        (RowStats.empty((2,), torch.zeros(())), "(rows=(2,): n_keys 0.0, entropy 0.00 nats, top weight 0, spread 0.0)"),
        (RowStats.of(torch.zeros(0, 3)), "(rows=(0,))"),
        (RowStats.of_counts(torch.tensor([4, 8]), torch.float32),
         "(rows=(2,): n_keys 6.0, entropy nan nats, top weight nan, spread nan)"),
        (RowStats.of(torch.zeros(2, 4, device="meta")), "(rows=(2,))"),
        (RowStats(1, 2, 3, 4, 5), "(n_keys=1, max=2, min=3, logsumexp=4, mean=5)"),
    ],
)  # fmt: skip
def test_repr_of_strange_rows(stats, shown):
    assert repr(stats) == "RowStats" + shown


def test_repr_of_fake_rows_says_only_shapes():
    with FakeTensorMode():
        assert repr(RowStats.of(torch.zeros(2, 4))) == "RowStats(rows=(2,))"
    assert torch.func.vmap(lambda row: (torch.zeros(()), repr(RowStats.of(row)))[0])(torch.zeros(3, 2)).shape == (3,)
