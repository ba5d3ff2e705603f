"""Gap counting against its definition, in blocks, and the law of normal logits."""

import math

import pytest
import tiny
import torch

from strop.diagnosing.asking import Contexts
from strop.diagnosing.gap_edge import LIMIT, predict_edge
from strop.diagnosing.groups import read_group
from strop.diagnosing.plan import Questioning
from strop.diagnosing.sizes import draw_size
from strop.diagnosing.symptoms.gaps import BINS, WIDTH, GapCounts, count_gaps


def count_directly(row: torch.Tensor, gap: float) -> int:
    return int((row.max() - row <= gap).sum()) - 1


def test_counts_are_those_of_the_definition_to_a_bin(draw):
    logits = 3 * torch.randn(5, 40, generator=draw, dtype=torch.float64)
    logits[2, 7:] = -math.inf
    gaps, near = GapCounts.of(logits).within()
    for row, counts in zip(logits, near, strict=True):
        for gap, count in zip(gaps.tolist(), counts.tolist(), strict=True):
            assert count_directly(row, gap - 2 * WIDTH) <= count <= count_directly(row, gap)


@pytest.mark.parametrize("sizes", [[40], [1, 39], [13, 13, 14], [39, 1]])
def test_blocks_add_up_to_the_whole_in_any_order(draw, sizes):
    logits = 4 * torch.randn(6, 40, generator=draw)
    logits[1, :20] = -math.inf
    blocks = list(logits.split(sizes, -1))
    whole = GapCounts.of(logits)
    for order in (blocks, blocks[::-1]):
        found = count_gaps(order)
        assert torch.equal(found.top, whole.top)
        assert torch.equal(found.counts, whole.counts)


def test_the_critical_beta_is_where_near_keys_outweigh_the_first():
    row = torch.tensor([[10.0, *[9.0 - WIDTH] * 16, *[-50.0] * 100]])  # 16 keys a little more than 1 below
    found = float(GapCounts.of(row).critical_beta())
    assert found == pytest.approx(math.log(16) / (1 + 2 * WIDTH))
    assert float((found * row).softmax(-1)[0, 0]) == pytest.approx(0.5, abs=0.15)


def test_for_normal_logits_it_grows_like_the_root_of_the_logarithm(draw):
    few, many = (float(GapCounts.of(torch.randn(256, n, generator=draw)).critical_beta().mean()) for n in (128, 8192))
    assert many / few == pytest.approx(math.sqrt(math.log(8192) / math.log(128)), rel=0.15)


def test_a_row_that_sees_one_key_or_none():
    rows = torch.full((2, 5), -math.inf)
    rows[0, 3] = 1.0
    assert GapCounts.of(rows).critical_beta().tolist() == [0.0, 0.0]
    assert GapCounts.of(rows).merge(GapCounts.of(rows + 2)).counts[0].sum() == 2
    assert BINS * WIDTH == 16


def test_the_predicted_edge_holds_the_critical_beta():
    model, plan = tiny.model(), Questioning(prompts=2, questions=2)
    groups = [read_group(Contexts(model), draw_size(tiny.reader(), "recall", n, plan), "recall", n) for n in (2, 8)]
    edge = predict_edge(model, *groups)
    before, after = (group.number("critical_beta")[group.telling].double().mean(0) for group in groups)
    wanted = (after / before).clamp(1 / LIMIT, LIMIT)
    assert [row["beta"] for row in edge.heads()] == pytest.approx(wanted.tolist(), rel=1e-5)
    assert edge.form == "constant"
