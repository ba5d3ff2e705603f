import pytest
import torch
from torch import Generator

from strop.normalisers import AdaptiveTemperature, Hard, LogN, Softmax
from strop.studies.networks.retriever import Retriever, RetrieverConfig
from strop.studies.problems.max_retrieval import MaxRetrieval
from strop.studies.problems.streams import stream
from strop.studies.retrieval.evaluation.accuracy import evaluate_size
from strop.studies.retrieval.evaluation.frozen_retriever import FrozenRetriever
from strop.studies.retrieval.evaluation.temperature_rules import Fitted, constant_rule, temperature_rules
from strop.studies.retrieval.training.trainer import TrainConfig, Trainer

TASK = MaxRetrieval()


@pytest.fixture(scope="module")
def trained():
    trainer = Trainer(TrainConfig(steps=300, batch=64))
    trainer.run(300)
    return trainer.params.views


@pytest.fixture(scope="module")
def model(trained):
    return FrozenRetriever.of(trained, RetrieverConfig())


@pytest.mark.parametrize("n", [1, 7, 300])
def test_every_rule_gives_what_the_plain_model_gives(trained, model, n):
    plain = Retriever(RetrieverConfig())
    plain.load_state_dict(trained)
    sets = 40
    tally = evaluate_size(
        model, TASK, n, sets, stream("test", n, 0), temperature_rules(Fitted()), {"beta 3": constant_rule(3.0)}
    )
    batch = TASK.sample(sets, n, stream("test", n, 0))
    items = TASK.items(batch.values, batch.classes)
    with torch.no_grad():
        logits = plain.logits(items, batch.query)
        for name, normaliser in {
            "softmax": Softmax(), "adaptive": AdaptiveTemperature(), "log n": LogN(16), "hard": Hard(),
            "adaptive, held": AdaptiveTemperature(beyond_fit="hold"), "beta 3": Softmax(3.0),
        }.items():  # fmt: skip
            out = plain.read(items, normaliser.weights(logits))
            loss = torch.nn.functional.cross_entropy(out, batch.target)
            assert tally.nll[name] == pytest.approx(float(loss), rel=2e-4, abs=2e-5), name
            assert tally.correct[name] == pytest.approx(float((out.argmax(-1) == batch.target).float().mean())), name


@pytest.mark.parametrize("chunk", [50, 1000])
def test_the_chunk_changes_nothing(model, chunk):
    every = temperature_rules(Fitted(train_entropy=0.2, gamma=0.7))
    whole = evaluate_size(model, TASK, 999, 30, stream("test", 999, 0), every)
    parts = evaluate_size(model, TASK, 999, 30, stream("test", 999, 0), every, chunk=chunk)
    assert whole.correct == parts.correct
    for name, value in whole.nll.items():
        assert parts.nll[name] == pytest.approx(value, rel=2e-5, abs=1e-5)


def test_items_set_aside_could_not_be_seen(model):
    every = temperature_rules(Fitted())
    pruned = evaluate_size(model, TASK, 4096, 8, stream("test", 4096, 0), every)
    whole = evaluate_size(model, TASK, 4096, 8, stream("test", 4096, 0), {**every, "all": constant_rule(1e-3)})
    for name in every:
        assert pruned.nll[name] == pytest.approx(whole.nll[name], abs=1e-5)


def test_within_a_class_the_order_is_right_so_a_wrong_top_has_a_wrong_class(model):
    tally = evaluate_size(model, TASK, 512, 200, stream("test", 512, 0), temperature_rules(Fitted()))
    assert tally.statistics["top is true"] == tally.statistics["top has true class"]
    assert tally.correct["true maximum"] > 0.99


def test_streams_differ_by_name_size_and_seed():
    draws = {
        torch.rand(1, generator=stream(*key)).item() for key in [("a", 1, 0), ("b", 1, 0), ("a", 2, 0), ("a", 1, 1)]
    }
    assert len(draws) == 4


def test_memory_is_bounded_by_the_chunk(model):
    """Activations of 2^20 items would be 512 MB; a peak below 200 MB says that they were never held at once."""
    import resource

    evaluate_size(model, TASK, 2**12, 1, Generator().manual_seed(0), temperature_rules(Fitted()))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    evaluate_size(model, TASK, 2**20, 1, Generator().manual_seed(0), {"softmax": constant_rule(1.0)})
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < 200
