"""Gap counts against the definition written out, the algebra of `merge`, and the law of normal logits."""

import math

import pytest
import torch
from cases import rows
from hypothesis import given
from hypothesis import strategies as st

from strop.sharpness import GapCounts
from strop.sharpness.gaps import BINS, WIDTH


@given(rows())
def test_counts_equal_their_definition_key_by_key(case):
    logits, keep = case
    found = GapCounts.of(logits, keep)
    for i, row in enumerate(logits):
        places = [math.floor(e / WIDTH) for e in (row if keep is None else row[keep[i]]).tolist()]
        top = max(places, default=-math.inf)
        assert found.top[i] == top
        assert found.counts[i].tolist() == [places.count(top - b) for b in range(BINS)]


@given(rows(), st.data())
def test_merging_any_split_in_any_order_gives_the_whole(case, data):
    logits, keep = case
    cuts = sorted(data.draw(st.lists(st.integers(0, logits.shape[-1]), max_size=3)))
    bounds = data.draw(st.permutations(list(zip([0, *cuts], [*cuts, logits.shape[-1]], strict=True))))
    parts = [GapCounts.of(logits[:, a:b], None if keep is None else keep[:, a:b]) for a, b in bounds]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merge(part)
    whole = GapCounts.of(logits, keep)
    assert torch.equal(merged.top, whole.top)
    assert torch.equal(merged.counts, whole.counts)


def test_within_is_right_to_a_bin(draw):
    logits = 3 * torch.randn(5, 40, generator=draw, dtype=torch.float64)
    logits[2, 7:] = -math.inf
    gaps, near = GapCounts.of(logits).within()
    for row, counts in zip(logits, near, strict=True):
        for gap, count in zip(gaps.tolist(), counts.tolist(), strict=True):
            fewest, most = (int((row.max() - row <= g).sum()) - 1 for g in (gap - 2 * WIDTH, gap))
            assert fewest <= count <= most


def test_the_critical_beta_is_where_near_keys_outweigh_the_first():
    row = torch.tensor([[10.0, *[9.0 - WIDTH] * 16, *[-50.0] * 100]])  # 16 keys a little more than 1 below
    found = float(GapCounts.of(row).critical_beta())
    assert found == pytest.approx(math.log(16) / (1 + 2 * WIDTH))
    assert float((found * row).softmax(-1)[0, 0]) == pytest.approx(0.5, abs=0.15)


def test_for_normal_logits_it_grows_like_the_root_of_the_logarithm(draw):
    few, many = (float(GapCounts.of(torch.randn(256, n, generator=draw)).critical_beta().mean()) for n in (128, 8192))
    assert many / few == pytest.approx(math.sqrt(math.log(8192) / math.log(128)), rel=0.15)


def test_rows_that_see_one_key_or_none_or_what_is_no_number():
    logits = torch.full((5, 4), -math.inf)
    logits[0, 3] = 1.0
    logits[2:] = torch.tensor([1.0, 2.0, 0.0, 2.0])
    logits[3, 0], logits[4, 0] = math.nan, math.inf
    found = GapCounts.of(logits)
    assert found.counts.sum(-1).tolist() == [1, 0, 4, 0, 0]
    assert found.critical_beta()[:2].tolist() == [0.0, 0.0]
    other = GapCounts.of(torch.full((5, 2), 3.0))
    assert found.merge(other).counts.sum(-1).tolist() == [3, 2, 6, 0, 0]
    assert GapCounts.of(logits[:, :0]).counts.sum() == 0
