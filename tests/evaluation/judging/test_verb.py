"""`strop.evaluate(…, suite=…)` with a stand-in for the harness: what is measured, kept and said."""

import json
from contextlib import contextmanager

import pytest
import tiny
import torch

import strop
from strop.edges.temperatures import Constant
from strop.errors import ArgumentError, EdgeError, StropWarning
from strop.evaluation.judging import marks, verb
from strop.evaluation.judging.judgement import Judgement
from strop.patching.identity import heads_of
from strop.records import real


class StandIn:
    """Draws no documents, and scores by how large the model's first logit is."""

    def __init__(self) -> None:
        self.drawn, self.scored = [], []

    def draw(self, cell, seed):
        self.drawn.append((cell.task, cell.tokens, seed))
        return cell

    def score(self, model, tasks, cell, documents, tick):
        assert tasks is cell
        self.scored.append((cell.task, cell.tokens))
        tick(documents)
        read = model(input_ids=torch.arange(3, 24)[None]).logits[0, -1, : 2 * documents : 2]
        return [
            {"task": cell.task, "document": f"{cell}{i}", "score": float(value.sigmoid() > 0.5), "answer": None}
            for i, value in enumerate(read)
        ]


@pytest.fixture
def harness(monkeypatch) -> StandIn:
    made = StandIn()

    @contextmanager
    def opens(tokenizer, offline):
        assert offline
        yield made

    monkeypatch.setattr(verb, "open_harness", opens)
    monkeypatch.setattr(verb, "estimate_seconds", lambda *_: 0.0)
    monkeypatch.setattr(marks, "version", lambda name: "0.4.13")
    return made


def softened(strength: float = 3.0) -> strop.Edge:
    model = tiny.model()
    numbers = {name: torch.full((heads, 1), -strength) for name, heads in heads_of(model).items()}
    return strop.Edge.of(model, {"constant": {name: Constant(rows) for name, rows in numbers.items()}})


def judge(edge: strop.Edge | None = None, **changes: object) -> Judgement:
    given = {"suite": "ruler", "lengths": (1024,), "prompts": 40, "runs": None, "name": "tiny"} | changes
    found = strop.evaluate(tiny.model(), tiny.tokeniser(), edge or softened(), **given)
    assert isinstance(found, Judgement)
    return found


def test_before_is_the_model_as_it_is_and_after_the_model_with_the_edge(harness):
    found = judge()
    model = tiny.model()
    cell = found.bench.cells()[0]
    before = harness.score(model, cell, cell, 40, lambda _: None)
    with softened().put_on(model):
        after = harness.score(model, cell, cell, 40, lambda _: None)
    assert found.answers[0]["before"] == pytest.approx(sum(real(row["score"]) for row in before) / 40)
    assert found.answers[0]["after"] == pytest.approx(sum(real(row["score"]) for row in after) / 40)
    assert found.answers[0]["gains"] + found.answers[0]["losses"] > 0
    assert harness.drawn == [(cell.task, 1024, 0) for cell in found.bench.cells()]  # once for both sides


def test_a_finished_cell_is_never_measured_again(harness, tmp_path):
    assert judge(runs=tmp_path).answers == judge(runs=None).answers  # kept or not
    harness.scored.clear()
    first = judge(runs=tmp_path / "another")
    assert len(harness.scored) == 12
    again = judge(runs=tmp_path / "another")
    assert len(harness.scored) == 12
    assert again.answers == first.answers
    judge(softened(1.0), runs=tmp_path / "another")  # another edge: the untouched model is known
    assert len(harness.scored) == 18
    judge(runs=tmp_path / "another", prompts=41)
    assert len(harness.scored) == 30


def test_an_interrupted_judgement_goes_on_with_its_cell(harness, tmp_path, monkeypatch):
    score = harness.score

    def tires(*given):
        if len(harness.scored) == 5:
            raise KeyboardInterrupt
        return score(*given)

    monkeypatch.setattr(harness, "score", tires)
    with pytest.raises(KeyboardInterrupt):
        judge(runs=tmp_path)
    monkeypatch.setattr(harness, "score", score)
    judge(runs=tmp_path)
    assert len(harness.scored) == 12


def test_it_says_what_changed_in_words_a_table_and_a_page(harness, tmp_path):
    found = judge()
    assert found.summary.startswith("Mean of the six tasks at 1,024 tokens: ")
    assert "cells" in found.summary
    assert [row[0] for row in found.table().rows][-1] == "ruler_fwe (control)"
    assert len(found.means_table().rows) == 2
    text = found.report(tmp_path / "page.html").read_text()
    assert "lm-evaluation-harness drew the documents" in text
    assert "(control)" in text


def test_worse_is_said_with_its_place(harness):
    found = judge()
    worse = [{**found.answers[0], "before": 1.0, "after": 0.0, "p_holm": 0.001}, *found.answers[1:]]
    object.__setattr__(found, "answers", worse)
    assert "WORSE on niah_single_1 at 1,024 tokens" in found.summary


def test_lengths_beyond_the_models_positions_are_left_out_with_a_word(harness):
    with pytest.warns(StropWarning, match="The model has 1,024 positions: it is judged at 1,024 tokens"):
        assert judge(lengths=None).bench.lengths == (1024,)
    with pytest.raises(ArgumentError, match="lengths must be at most the model's 1024 positions, got 2048"):
        judge(lengths=(2048,))


def test_what_takes_long_is_said_before(harness, monkeypatch):
    monkeypatch.setattr(verb, "estimate_seconds", lambda *_: 3700.0)
    with pytest.warns(StropWarning, match="12 cells of 40 documents are to be measured: about 1 h 01 min"):
        judge()


def test_a_wrong_name_and_a_foreign_edge_are_told_before_anything_is_measured(harness):
    with pytest.raises(ArgumentError, match="suite must be ruler or lm-eval:TASK"):
        judge(suite="squad")
    with pytest.raises(ArgumentError, match="task must be left out with a suite, got passkey"):
        judge(task="passkey")
    with pytest.raises(EdgeError, match="weights"):
        strop.evaluate(tiny.model(seed=1), tiny.tokeniser(), softened(), suite="ruler", lengths=(1024,), runs=None)
    assert not harness.scored


def test_the_command_line_prints_it(harness, tmp_path, monkeypatch):
    from click.testing import CliRunner

    from strop.cli import evaluate, main  # noqa: F401
    from strop.cli.group import strop as group

    monkeypatch.setattr(evaluate._extras, "need", lambda *_: None)
    tiny.save(tmp_path / "model")
    softened().save(tmp_path / "edge.safetensors")
    given = ["evaluate", str(tmp_path / "model"), "--edge", str(tmp_path / "edge.safetensors"), "--suite", "ruler"]
    given += ["--lengths", "1024", "--prompts", "8", "--runs", str(tmp_path / "runs")]
    found = CliRunner().invoke(group, [*given, "--json"])
    assert found.exit_code == 0, found.output
    assert len(json.loads(found.stdout)["answers"]) == 6
    refused = CliRunner().invoke(group, [*given, "--sizes", "4"])
    assert refused.exit_code == 2
    assert "--sizes must be left out with --suite" in refused.stderr
