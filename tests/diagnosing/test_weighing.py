"""What a row does with the evidence, against a direct computation."""

import math

import pytest
import torch

from strop.diagnosing.weighing import MOST, weigh


def direct_beta(row: torch.Tensor, evidence: torch.Tensor) -> float:
    for beta in torch.logspace(0, math.log10(MOST), 20_001, dtype=torch.float64):
        if float((beta * row).softmax(-1)[evidence].sum()) >= 0.5:
            return float(beta)
    return math.inf


@pytest.mark.parametrize("seed", range(8))
def test_numbers_are_those_of_the_definition(seed):
    draw = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(6, 20, generator=draw, dtype=torch.float64)
    evidence = torch.rand(6, 20, generator=draw) < 0.15
    evidence[:, 3] = True
    right, written = (torch.rand(6, 20, generator=draw) < 0.3 for _ in range(2))
    found = weigh(logits, torch.ones(20, dtype=torch.bool), evidence, right, written, torch.full((6,), 19))
    for i, row in enumerate(logits):
        p, held = row.softmax(-1), evidence[i]
        assert float(found.weight[i]) == pytest.approx(float(p[held].sum()))
        both = held & right[i] if bool((held & right[i]).any()) else held
        assert float(found.held[i]) == pytest.approx(float(p[both].sum()))
        assert float(found.rival[i]) == pytest.approx(float(p[written[i] & ~held].sum()))
        assert int(found.rank[i]) == 1 + int((row[~held] > row[held].max()).sum())
        assert float(found.margin[i]) == pytest.approx(float(row[held].max() - row[~held].max()))
        assert float(found.beta[i]) == pytest.approx(direct_beta(row, held), rel=1e-3)
        assert float(found.recent_weight[i]) == pytest.approx(float(p[4:].sum()))
        assert int(found.top[i]) == int(row.argmax())


def test_a_row_that_sees_no_evidence():
    keep = torch.tensor([True, True, False])
    found = weigh(torch.zeros(1, 3), keep, ~keep, ~keep, ~keep, torch.tensor([1]))
    assert (float(found.weight), float(found.rank), float(found.beta)) == (0.0, math.inf, math.inf)
