"""`strop.evaluate`: the same model before and after, on prompts that calibration did not learn from."""

import json
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import tiny
import torch

import strop
from strop.edges.temperatures import Constant
from strop.errors import ArgumentError, EdgeError, SourceError, StropWarning
from strop.evaluation import Comparison, marks
from strop.evaluation.marks import compare_marks, mark_model
from strop.patching.identity import heads_of
from strop.tasks.prompts import Prompts

SMALL = {"sizes": (2,), "phrasings": ("code", "room"), "prompts": 4, "questions": 2, "lengths": (24, 32), "windows": 2}
PAIRS = [(f"The code of {i} is", str(i)) for i in range(10)]


def edge(model: torch.nn.Module, strength: float = 0.8, **recipe: object) -> strop.Edge:
    """An edge that softens every head; with a recipe, one that was calibrated by it."""
    numbers = {name: torch.full((heads, 1), -strength) for name, heads in heads_of(model).items()}
    made = strop.Edge.of(model, {"constant": {name: Constant(rows) for name, rows in numbers.items()}})
    return replace(made, made={"recipe": {"data": None, "seed": 0} | recipe}) if recipe else made


def evaluate(given: object = None, **changes: object) -> Comparison:
    model = tiny.model()
    settings = SMALL | {"runs": None, "name": "tiny"} | changes
    return strop.evaluate(model, tiny.tokeniser(), edge(model) if given is None else given, **settings)


@pytest.fixture
def asked(monkeypatch) -> list[str]:
    """Which prompts were asked, in every measurement."""
    found: list[str] = []
    answer = marks.answer_passages

    def remembers(model, reader, passages, *more):
        found.append([passage.questions[0][0] for passage in passages])
        return answer(model, reader, passages, *more)

    monkeypatch.setattr(marks, "answer_passages", remembers)
    return found


def test_before_is_the_model_as_it_is_and_after_the_model_with_the_edge():
    model, reader = tiny.model(), tiny.reader()
    found = evaluate()
    before = mark_model(model, reader, found.suite)
    with edge(model).put_on(model):
        after = mark_model(model, reader, found.suite)
    assert (found.answers, found.prose, found.overall) == compare_marks(before, after)
    assert [(row["phrasing"], row["size"], row["prompts"]) for row in found.answers] == [("code", 2, 4), ("room", 2, 4)]
    assert all(row["nats_before"] != row["nats_after"] for row in found.answers)
    assert [row["tokens"] for row in found.prose] == [24, 32]
    assert all(row["change"] != 0 for row in found.prose)


def test_without_a_folder_nothing_is_kept(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert evaluate(runs=None).folder is None
    assert list(tmp_path.iterdir()) == []


def test_the_untouched_model_is_measured_once_for_any_number_of_edges(tmp_path: Path, asked):
    model = tiny.model()
    first = evaluate(edge(model), runs=tmp_path)
    assert len(asked) == 2
    again = evaluate(edge(model), runs=tmp_path)
    assert len(asked) == 2
    assert (again.answers, again.prose, again.folder) == (first.answers, first.prose, first.folder)
    other = evaluate(edge(model, 0.4), runs=tmp_path)
    assert len(asked) == 3
    assert other.folder != first.folder
    assert len(list((tmp_path / "evaluate").iterdir())) == 3
    evaluate(edge(model), runs=tmp_path, seed=1)
    assert len(asked) == 5


def test_against_another_edge_that_one_is_before(asked):
    model = tiny.model()
    strong, weak = edge(model, 0.8), edge(model, 0.4)
    alone = [evaluate(strong), evaluate(weak)]
    both = evaluate(strong, against=weak)
    for row, with_strong, with_weak in zip(both.answers, *(one.answers for one in alone), strict=True):
        assert row["nats_before"] == with_weak["nats_after"]
        assert row["nats_after"] == with_strong["nats_after"]
    same = evaluate(strong, against=strong)
    assert all(row["gains"] == row["losses"] == 0 and row["p_mcnemar"] == 1 for row in same.answers)
    assert all(row["change"] == 0 for row in same.prose)


def test_an_edge_may_be_a_file_a_folder_or_itself(tmp_path: Path):
    made = edge(tiny.model())
    made.save(tmp_path / "one.safetensors")
    made.save_pretrained(tmp_path / "folder")
    wanted = evaluate(made).answers
    for place in (tmp_path / "one.safetensors", str(tmp_path / "one.safetensors"), tmp_path / "folder"):
        assert evaluate(place).answers == wanted
        assert evaluate(made, against=place).answers == evaluate(made, against=made).answers


def prompts_asked(asked: list[list[str]]) -> list[str]:
    assert asked[0] == asked[1]  # before and after
    return sorted(asked[0])


def test_prompts_of_ones_own_are_all_asked_where_no_edge_saw_any(asked):
    with warnings.catch_warnings(action="error"):
        found = evaluate(task=PAIRS)
    assert prompts_asked(asked) == sorted(prompt for prompt, _ in PAIRS)
    assert [(row["task"], row["prompts"]) for row in found.answers] == [("prompts in memory", 10)]


@pytest.mark.parametrize("seed", [0, 3])
def test_prompts_that_the_edge_was_calibrated_on_are_measured_on_the_held_fifth(asked, tmp_path: Path, seed):
    own = Prompts.read(PAIRS)
    learned = edge(tiny.model(), data="elsewhere.jsonl", seed=seed, prompts=own.checksum)
    path = tmp_path / "renamed.jsonl"  # the same prompts, whatever their file is called
    path.write_text("\n".join(json.dumps({"prompt": prompt, "answer": answer}) for prompt, answer in PAIRS))
    held = sorted(passage.questions[0][0] for passage in own.split(seed)[2])
    for task in (PAIRS, path):
        asked.clear()
        with pytest.warns(StropWarning, match="these prompts: they are measured on the fifth kept") as told:
            found = evaluate(learned, task=task)
        assert prompts_asked(asked) == held
        assert found.suite.held
        assert found.answers[0]["prompts"] == 2
        assert {warning.filename for warning in told} == {__file__}  # it points at who called


def test_a_calibrated_edge_meets_its_own_prompts_on_the_held_fifth(asked):
    model = tiny.model()
    settings = {"steps": 1, "lengths": (32,), "windows": 1, "guard": (), "runs": None, "seed": 2}
    learned = strop.calibrate(model, tiny.tokeniser(), PAIRS, **settings)
    with pytest.warns(StropWarning, match="measured on the fifth kept for testing"):
        evaluate(learned, task=PAIRS)
    parts = Prompts.read(PAIRS).split(2)
    assert prompts_asked(asked) == sorted(passage.questions[0][0] for passage in parts[2])


def test_other_prompts_than_those_it_was_calibrated_on_are_all_asked_with_a_word(asked):
    learned = edge(tiny.model(), data="elsewhere.jsonl", prompts="0123456789abcdef")
    with pytest.warns(StropWarning, match=r"prompts of elsewhere\.jsonl: any of those here would flatter it"):
        evaluate(learned, task=PAIRS)
    assert len(prompts_asked(asked)) == 10
    with warnings.catch_warnings(action="error"):
        evaluate(learned)  # a built-in task holds none of them


def test_two_edges_must_keep_the_same_fifth(asked):
    model, own = tiny.model(), Prompts.read(PAIRS)
    first, same, other = (edge(model, data="a", seed=seed, prompts=own.checksum) for seed in (1, 1, 2))
    with pytest.raises(ArgumentError, match="both edges must keep the same fifth of these prompts for testing"):
        evaluate(first, against=other, task=PAIRS)
    with pytest.warns(StropWarning, match="measured on the fifth"):
        evaluate(first, against=same, task=PAIRS)
    with pytest.warns(StropWarning, match="measured on the fifth"):
        evaluate(edge(model), against=first, task=PAIRS)  # it is enough that one of them saw them


def test_the_model_is_as_it_was(monkeypatch):
    model = tiny.model().requires_grad_(True).train()
    model.model.layers[0].requires_grad_(False).eval()

    def flags():
        return [p.requires_grad for p in model.parameters()], [m.training for m in model.modules()]

    before, given = flags(), edge(model)
    strop.evaluate(model, tiny.tokeniser(), given, **SMALL, runs=None)
    assert flags() == before

    def fails(*_):
        raise RuntimeError("stopped")

    monkeypatch.setattr(marks, "score_prose", fails)
    with pytest.raises(RuntimeError, match="stopped"):
        strop.evaluate(model, tiny.tokeniser(), given, **SMALL, runs=None)
    assert flags() == before
    assert model.config._attn_implementation == "sdpa"


def test_dropout_is_off_in_training_mode():
    model = tiny.model("gpt2")
    found = [strop.evaluate(one, tiny.tokeniser(), edge(one), **SMALL, runs=None) for one in (model, model.train())]
    assert found[0].answers == found[1].answers
    assert found[0].prose == found[1].prose


def test_what_it_says_of_itself_as_a_line_tables_and_a_page(tmp_path: Path):
    found = evaluate()
    assert found.summary.startswith("Exact answers of ")
    assert repr(found) == f"<Comparison of tiny before and after: {found.summary}>"
    assert len(found.table().rows) == 2
    assert len(found.prose_table().rows) == 2
    path = found.report(tmp_path / "deep" / "report.html")
    html = path.read_text()
    assert path == tmp_path / "deep" / "report.html"
    assert "tiny, before and after" in html
    assert "(&#39;code&#39;, &#39;room&#39;)" in html
    with warnings.catch_warnings(action="ignore"):
        own = evaluate(task=PAIRS).page().render()
    assert "(&#39;code&#39;, &#39;room&#39;)" not in own  # what is unused for prompts of one's own is not shown
    assert "prompts in memory" in own


def test_a_model_by_name_is_opened(tmp_path: Path):
    folder = tiny.save(tmp_path / "small")
    found = strop.evaluate(str(folder), edge=edge(tiny.model()), **SMALL, runs=None)
    assert found.model == "small"
    assert found.answers == evaluate().answers


def test_prose_lengths_beyond_the_model_are_left_out_with_a_word():
    with pytest.warns(StropWarning, match="The model has 1,024 positions: prose is read at 24 tokens"):
        assert evaluate(lengths=(24, 4096)).suite.lengths == (24,)


def test_wrong_arguments_are_told_before_anything_is_measured(monkeypatch, tmp_path: Path):
    given = edge(tiny.model())
    for changes, words in (
        ({"edge": None}, r"edge must be given, got none\. Make one with strop\.calibrate"),
        ({"edge": tmp_path / "no"}, "must be a folder, a file or a hub name"),
        ({"task": "recal"}, "Did you mean 'recall'"),
        ({"phrasings": ("rooom",)}, "Did you mean 'room'"),
        ({"sizes": (2, 2)}, "sizes must not repeat"),
        ({"task": []}, "task must hold prompts"),
    ):
        with pytest.raises(strop.StropError, match=words):
            strop.evaluate("no-such-model", **(SMALL | {"edge": given, "runs": None} | changes))
    with pytest.raises(SourceError, match="model must be known"):
        strop.evaluate("no-such-model", edge=given, **SMALL, runs=None)
    monkeypatch.setattr(marks, "mark_model", lambda *_: pytest.fail("the model was measured"))
    with pytest.raises(EdgeError, match="fingerprint"):
        strop.evaluate(tiny.model(seed=1), tiny.tokeniser(), given, **SMALL, runs=None)
