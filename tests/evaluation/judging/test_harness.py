"""lm-evaluation-harness itself; without the extra `judge` there is nothing to test."""

import random

import pytest
import tiny
import torch

pytest.importorskip("lm_eval", reason="needs the extra judge")
pytest.importorskip("wonderwords", reason="needs the extra judge")

import strop
from strop.errors import ArgumentError
from strop.evaluation.judging import harness as harness_module
from strop.evaluation.judging.bench import BenchCell
from strop.evaluation.judging.harness import open_harness

pytestmark = pytest.mark.filterwarnings("ignore")
NEEDLE = BenchCell("niah_multikey_2", 1024)


@pytest.fixture(scope="module")
def harness():
    with open_harness(tiny.tokeniser()) as made:
        yield made


def documents(drawn, count: int = 3) -> list[dict[str, object]]:
    (task,) = drawn["tasks"].values()
    return list(task.test_docs())[:count]


@pytest.mark.parametrize("cell", [NEEDLE, BenchCell("ruler_cwe", 2048)])
def test_the_same_seed_draws_the_same_documents(harness, cell):
    state = random.getstate()
    first = documents(harness.draw(cell, 0))
    assert documents(harness.draw(cell, 0)) == first
    assert documents(harness.draw(cell, 1)) != first
    assert random.getstate() == state


class Scribe:
    """A model that writes what it is told, for tests of what the harness makes of it."""

    def __init__(self, model, written):
        self.model, self.written, self.steps = model, list(written), []

    def __call__(self, input_ids, logits_processor, max_length, **given):
        tokeniser = tiny.tokeniser()
        text = [tokeniser(one).input_ids for one in self.written[: len(input_ids)]]
        del self.written[: len(input_ids)]
        ids, ended = input_ids, [False] * len(input_ids)
        for step in range(max_length - input_ids.shape[1]):
            wanted = [row[step] if step < len(row) else 3 for row in text]
            scores = torch.nn.functional.one_hot(torch.tensor(wanted), 99).float()
            for processor in logits_processor:
                scores = processor(ids, scores)
            chosen = scores.argmax(-1)
            chosen[torch.tensor(ended)] = 0
            ended = [was or bool(now == tokeniser.eos_token_id) for was, now in zip(ended, chosen, strict=True)]
            ids = torch.cat([ids, chosen[:, None]], 1)
            if all(ended):
                break
        self.steps.append(ids.shape[1] - input_ids.shape[1])
        return ids


def scores(harness, monkeypatch, written, early=True):
    model = tiny.model(max_position_embeddings=2048)
    scribe = Scribe(model, written)
    monkeypatch.setattr(model, "generate", scribe, raising=False)
    tokeniser = tiny.tokeniser()
    plain = lambda ids, skip_special_tokens: "".join(tokeniser.convert_ids_to_tokens(ids, skip_special_tokens=True))  # noqa: E731
    monkeypatch.setattr(type(harness._tokenizer), "decode", lambda self, ids, **given: plain(ids, True))
    if not early:
        monkeypatch.setattr(harness_module, "RULER", ())
    monkeypatch.setattr(harness_module, "LARGEST_BATCH", 1)
    return [row["score"] for row in harness.score(model, harness.draw(NEEDLE, 0), NEEDLE, 3)], scribe.steps


def test_the_score_is_the_harnesss_and_ending_early_does_not_change_it(harness, monkeypatch):
    docs = sorted(
        documents(harness.draw(NEEDLE, 0)), key=lambda doc: (-len(doc["input"] + doc["gen_prefix"]), doc["input"])
    )
    written = [f"it is {docs[0]['outputs'][0]}, I say", "I do not know", docs[2]["outputs"][0]]
    found, steps = scores(harness, monkeypatch, written)
    assert sorted(found) == [0.0, 1.0, 1.0]
    assert sorted(steps) == [8, 14, 128]  # one token to end with, after the answer
    slow, steps = scores(harness, monkeypatch, written, early=False)
    assert slow == found
    assert steps == [128] * 3


def test_a_real_model_is_asked_and_kept_as_it_was(harness):
    model = tiny.model(max_position_embeddings=2048)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    ticks = []
    rows = harness.score(model, harness.draw(NEEDLE, 0), NEEDLE, 3, ticks.append)
    assert sum(ticks) == 3
    assert len({row["document"] for row in rows}) == 3
    assert all(row["score"] == 0.0 and isinstance(row["answer"], str) for row in rows)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_documents_that_are_read_together_are_answered_as_alone(harness, monkeypatch):
    model = tiny.model(max_position_embeddings=2048)
    drawn = harness.draw(NEEDLE, 0)
    with strop.sharpened(model, strop.normalisers.LogN(64)):  # it counts keys: padding must not be among them
        together = harness.score(model, drawn, NEEDLE, 4)
        monkeypatch.setattr(harness_module, "LARGEST_BATCH", 1)
        assert harness.score(model, drawn, NEEDLE, 4) == together
    assert harness.score(model, drawn, NEEDLE, 4) != together


def test_a_task_that_the_harness_does_not_know_is_named(harness):
    with pytest.raises(ArgumentError, match="must name a task of lm-evaluation-harness, got 'no_such_task'"):
        harness.draw(BenchCell("no_such_task", None), 0)
