import torch
from torch import Generator

from strop.sharpness import RowStats
from strop.studies.retrieval.evaluation.temperature_solver import (
    BETA_CAP,
    beta_for_entropy,
    beta_for_item,
    entropy_and_mean,
)

LOGITS = torch.randn(40, 30, generator=Generator().manual_seed(0), dtype=torch.float64) * 3


def test_entropy_and_mean_are_those_of_the_tempered_row():
    beta = torch.linspace(0.3, 4, 40, dtype=torch.float64)
    entropy, mean = entropy_and_mean(LOGITS, beta)
    p = (beta[:, None] * LOGITS).softmax(-1)
    torch.testing.assert_close(entropy, -(p * p.log()).sum(-1))
    torch.testing.assert_close(mean, (p * LOGITS).sum(-1))


def test_holding_entropy_holds_it_and_never_softens():
    beta = beta_for_entropy(LOGITS, 0.4)
    entropy, _ = entropy_and_mean(LOGITS, beta)
    assert (beta >= 1).all()
    inside = (beta > 1.001) & (beta < BETA_CAP * 0.99)
    assert inside.sum() > 10
    torch.testing.assert_close(entropy[inside], torch.full_like(entropy[inside], 0.4), atol=2e-3, rtol=0)
    assert (RowStats.of(LOGITS).entropy[beta == 1] <= 0.4 + 1e-9).all()


def test_best_for_is_the_maximum_over_a_fine_grid():
    item = LOGITS.topk(3, dim=-1).indices[:, 1]
    wanted = LOGITS.gather(1, item[:, None]).squeeze(1)
    found = beta_for_item(LOGITS, wanted)
    grid = torch.logspace(-1.2, 1.8, 600, dtype=torch.float64)
    weight = (grid[:, None, None] * LOGITS).softmax(-1).gather(2, item.expand(600, 40)[..., None]).squeeze(-1)
    mine = (found[:, None] * LOGITS).softmax(-1).gather(1, item[:, None]).squeeze(1)
    assert (mine >= weight.amax(0) * (1 - 1e-4)).all()


def test_the_top_item_wants_the_cap():
    torch.testing.assert_close(beta_for_item(LOGITS, LOGITS.amax(-1)), torch.full((40,), BETA_CAP, dtype=torch.float64))
