import math

import pytest
import torch

from strop.sharpness import RowStats
from strop.studies.networks.retriever import RetrieverConfig
from strop.studies.problems.max_retrieval import MaxRetrieval
from strop.studies.problems.streams import stream
from strop.studies.retrieval.evaluation.accuracy import evaluate_size
from strop.studies.retrieval.evaluation.class_offsets import measure_offsets, simulate_right_order
from strop.studies.retrieval.evaluation.fits import fit_gamma, fit_polynomial, refine_minimum, survey_size
from strop.studies.retrieval.evaluation.frozen_retriever import FrozenRetriever
from strop.studies.retrieval.evaluation.temperature_rules import Fitted, temperature_rules
from strop.studies.retrieval.evaluation.top_item_weights import top_item_weights
from strop.studies.retrieval.training.trainer import TrainConfig, Trainer

TASK = MaxRetrieval()


@pytest.fixture(scope="module")
def model():
    trainer = Trainer(TrainConfig(steps=300, batch=64))
    trainer.run(300)
    return FrozenRetriever.of(trainer.params.views, RetrieverConfig())


@pytest.mark.parametrize("n", [5, 64, 1024])
def test_ten_curves_foretell_how_often_the_order_is_right(model, n):
    tally = evaluate_size(model, TASK, n, 2000, stream("test", n, 0), temperature_rules(Fitted()))
    simulated = simulate_right_order(model, n, 20_000, stream("order", n, 0))
    assert simulated == pytest.approx(tally.statistics["top is true"], abs=0.04)


def test_a_class_put_ahead_is_measured(model):
    before = measure_offsets(model)
    shifted = FrozenRetriever(model.params, model.config)
    weight = shifted.params["item.0.weight"]
    kept = weight.clone()
    weight[:, 4] += 0.004 * weight[:, 0]  # class 3 now looks as if every value were 0.004 larger
    after = measure_offsets(shifted)
    weight.copy_(kept)
    gain = [a - b for a, b in zip(after.by_class, before.by_class, strict=True)]
    assert gain[3] == pytest.approx(0.0036, rel=0.1)
    assert sum(after.by_class) == pytest.approx(0, abs=1e-9)


def test_the_survey_finds_the_missed_sets(model):
    entropy, missed, best = survey_size(model, TASK, 16, 3000, stream("survey", 16, 0))
    hits = evaluate_size(model, TASK, 16, 3000, stream("survey", 16, 0), temperature_rules(Fitted()))
    assert len(entropy) == 3000
    assert len(missed) == len(best) == round(3000 * (1 - hits.statistics["top is true"]))
    assert float(entropy.mean()) == pytest.approx(hits.statistics["entropy"], rel=1e-4)


def test_fits_recover_what_made_the_data():
    x = torch.linspace(0, 3, 80, dtype=torch.float64)
    made = (0.5, -1.0, 0.25, 2.0, 1.0)
    y = sum(c * x ** (4 - i) for i, c in enumerate(made))
    assert fit_polynomial(x.tolist(), y.tolist()) == pytest.approx(made, abs=1e-6)
    assert fit_polynomial([1.0] * 10, [1.0] * 10) == ()
    assert fit_gamma({16: 1.3, 32: 2**0.7, 64: 4**0.7}) == pytest.approx(0.7)
    betas = [2 ** (i / 4) for i in range(-4, 25)]
    assert refine_minimum(betas, [(math.log(b) - 0.6) ** 2 for b in betas]) == pytest.approx(math.exp(0.6))
    assert refine_minimum(betas, [-b for b in betas]) == betas[-1]


def test_rules_only_sharpen_and_leave_training_sizes_alone():
    logits = torch.randn(6, 40, generator=stream("x", 1, 0))
    every = temperature_rules(Fitted(refit=(1.0, 0.0, 0.0, 0.0, 0.0), train_entropy=0.5, gamma=0.8))
    assert list(every) == [
        "softmax",
        "adaptive",
        "adaptive, held",
        "refit",
        "train entropy",
        "log n",
        "1 + log",
        "power",
        "calibrated",
    ]
    for name, rule in every.items():
        assert (rule(logits, RowStats.of(logits)) >= 1).all(), name
    small = logits[:, :16]
    for name in ("log n", "1 + log", "power"):
        torch.testing.assert_close(every[name](small, RowStats.of(small)), torch.ones(6).expand(6))
    grown = every["power"](logits, RowStats.of(logits))
    torch.testing.assert_close(grown, torch.full((6,), 2.5**0.8))


def test_strips_hold_the_largest_items_largest_last(model):
    softmax = {"softmax": temperature_rules(Fitted())["softmax"]}
    found = top_item_weights(model, TASK, [16, 200], softmax, sets=5)["softmax"]
    assert found[16].shape == found[200].shape == (5, 16)
    torch.testing.assert_close(found[16].sum(1), torch.ones(5))
    assert (found[200].sum(1) <= 1 + 1e-5).all()
    assert float(found[16][:, -1].mean()) > float(found[16][:, 0].mean())
