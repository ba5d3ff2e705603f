"""The board of rivals on a tiny model: each is put on and taken off again, each learns from the same data."""

import pytest
import tiny
import torch

from strop.errors import ArgumentError
from strop.pretrained.load import Opened
from strop.records import read_csv, write_csv
from strop.studies.rivals import RivalBoard, run_board
from strop.studies.rivals.board import BoardCell
from strop.studies.rivals.rival import RIVALS, UNTOUCHED
from strop.studies.rivals.shots import add_shots
from strop.studies.rivals.table import correct, tabulate_rivals
from strop.tasks.passages import Passage

SMALL = RivalBoard(
    sizes=(4,), prompts=2, questions=2, counting=4, prose=(24,), windows=2, tokens=(), pairs=(2, 3), judged=(3,),
    steps=2, rates=(1e-2, 1e-1),
)  # fmt: skip
FREE = ("yarn", "llama4", "log-n", "infoscale", "adaptive", "adaptive-held")
LEARNED = ("ia3", "lora-1-q", "lora-8-qkvo")


@pytest.fixture
def opened() -> Opened:
    return Opened("tiny", tiny.model(max_position_embeddings=2048), tiny.tokeniser())


def read(opened: Opened) -> torch.Tensor:
    with torch.no_grad():
        return opened.model(input_ids=torch.arange(3, 90).repeat(4)[None]).logits


def read_untouched(opened: Opened) -> torch.Tensor:
    return read(Opened("tiny", tiny.model(max_position_embeddings=2048), tiny.tokeniser()))


@pytest.mark.parametrize("name", [*FREE, "lora-1-q", "ia3"])
def test_a_rival_changes_the_model_and_is_gone_after_the_block(opened, name, tmp_path):
    before, names = read(opened), [name for name, _ in opened.model.named_parameters()]
    made = RIVALS[name].make(opened, SMALL, tmp_path, True)
    assert torch.equal(read(opened), before)
    with made.put_on():
        assert not torch.equal(read(opened), before)
    assert torch.equal(read(opened), before)
    assert [name for name, _ in opened.model.named_parameters()] == names


def test_infoscale_is_told_the_length_of_a_query(opened, tmp_path):
    made = RIVALS["infoscale"].make(opened, SMALL, tmp_path, True)
    assert made.digest == "infoscale: InfoScale(trained_length=256, head_dim=8)"


def test_an_adapter_is_the_best_of_its_rates_and_learned_once(opened, tmp_path, monkeypatch):
    from strop.studies.rivals import adapters

    made = RIVALS["lora-8-q"].make(opened, SMALL, tmp_path, True)
    losses = {path.name: path / adapters.LOSS for path in tmp_path.iterdir()}
    assert len(losses) == 2
    import json

    best = min(losses, key=lambda name: json.loads(losses[name].read_text())["loss"])
    assert made.digest == best
    width = opened.model.config.hidden_size
    assert made.numbers == opened.model.config.num_hidden_layers * 8 * 2 * width
    monkeypatch.setattr(adapters, "_train", None)
    assert RIVALS["lora-8-q"].make(opened, SMALL, tmp_path, True).digest == best


def test_a_held_adapter_keeps_to_the_budget_and_the_guard_by_which_edges_are_kept(opened, tmp_path):
    import json

    from strop.calibration.settings import Settings
    from strop.studies.rivals import adapters

    board = RivalBoard(**{**vars(SMALL), "rates": (0.3,)})
    RIVALS["lora-8-q"].make(opened, board, tmp_path / "free", True)
    made = RIVALS["lora-8-q-held"].make(opened, board, tmp_path / "held", True)
    (found,) = (json.loads((path / adapters.LOSS).read_text()) for path in (tmp_path / "held").iterdir())
    assert 0 < found["drift"] <= Settings().budget
    assert found["harm"] <= Settings().harm
    with made.put_on():
        held = read(opened)
    free = RIVALS["lora-8-q"].make(opened, board, tmp_path / "free", False)
    with free.put_on():
        assert (read(opened) - held).norm() > 2 * (held - read_untouched(opened)).norm()


def test_what_was_not_learned_is_left_out_of_a_board_that_is_only_shown(opened, tmp_path):
    assert RIVALS["lora-1-q"].make(opened, SMALL, tmp_path, False) is None
    assert RIVALS["edge-constant"].make(opened, SMALL, tmp_path, False) is None


def test_two_solved_examples_stand_before_the_passage():
    given = Passage("Ticket a has number 1. ", (("Ticket a has number", " 1"),), 1, "ticket")
    (made,) = add_shots("lookup-similar", [given])
    examples = made.context.removesuffix(given.context)
    assert examples.count("\n\n") == 2
    assert examples.count("has number") == 2 * (4 + 1)
    assert made.questions == given.questions


def test_a_board_is_built_up_in_several_sittings_and_its_table_from_records(opened, tmp_path, monkeypatch):
    from strop.studies.rivals import study

    first = run_board(opened, SMALL, ["log-n"], tmp_path)
    measured = []
    measure = study.measure_cell
    monkeypatch.setattr(
        study, "measure_cell", lambda cell, rival, *more: measured.append(rival.name) or measure(cell, rival, *more)
    )
    second = run_board(opened, SMALL, ["log-n", "two-shot"], tmp_path)
    assert set(measured) == {"two-shot"}
    assert [one.name for one in second.found] == [UNTOUCHED, "log-n", "two-shot"]
    kept = [row for row in second.records() if row["rival"] == "log-n" and row["column"] != "cost"]
    again = [row for row in first.records() if row["rival"] == "log-n" and row["column"] != "cost"]
    assert [row["value"] for row in kept] == [row["value"] for row in again]
    shown = run_board(opened, SMALL, ["log-n", "lora-1-q"], tmp_path, show=True)
    assert [one.name for one in shown.found] == [UNTOUCHED, "log-n"]
    table = tabulate_rivals(second.records())
    write_csv(tmp_path / "board.csv", second.records())
    assert tabulate_rivals(read_csv(tmp_path / "board.csv")).text() == table.text()
    assert [row[0] for row in table.rows] == [UNTOUCHED, "log-n", "two-shot"]
    assert "± " in table.text()
    second.page().write(tmp_path / "page.html")
    assert "Rivals on tiny" in (tmp_path / "page.html").read_text()


def test_marks_are_of_corrected_p_values():
    def row(rival, value, p):
        head = {
            "model": "m",
            "rival": rival,
            "about": "",
            "column": "look-up 48",
            "value": value,
            "low": 0.0,
            "high": 1.0,
        }
        return {**head, "prompts": 9, "p": p, "p_holm": p, "note": "", "bakes": None}

    table = tabulate_rivals([row(UNTOUCHED, 0.5, None), row("a", 0.9, 0.01), row("b", 0.1, 0.01), row("c", 0.9, 0.06)])
    assert [line[1][:5] for line in table.rows] == ["50.0 ", "90.0▲", "10.0▼", "90.0 "]


def test_records_of_several_sittings_are_corrected_together_and_the_last_one_counts():
    def row(rival, p, model="tiny"):
        return {"model": model, "rival": rival, "column": "look-up 48", "p": p, "p_holm": 1.0}

    first = [row(UNTOUCHED, None), row("a", 0.5), row("b", 0.03)]
    found = correct([*first, row("a", 0.01), row("c", 0.02)])
    assert [(one["rival"], one["p_holm"]) for one in found] == [
        (UNTOUCHED, 1.0), ("a", pytest.approx(0.03)), ("b", pytest.approx(0.04)), ("c", pytest.approx(0.04)),
    ]  # fmt: skip
    assert first[2]["p_holm"] == 1.0  # what was given stays as it was
    with pytest.raises(ValueError, match="records must be of one model, got other, tiny"):
        correct([*first, row("a", 0.01, "other")])


def test_ruler_is_kept_where_evaluate_keeps_it(opened, tmp_path, monkeypatch):
    from strop.evaluation.judging import marks, verb

    monkeypatch.setattr(marks, "version", lambda name: "0.4.13")
    asked = []

    def measure_cells(marker, given, changes, progress):
        for change, cell in marker.missing(changes):
            asked.append((change[0], str(cell)))
            rows = [{"document": "d", "task": cell.task, "score": 1.0}]
            marker.run(change[0], cell).finish(marker.config(change[0], cell), rows)

    monkeypatch.setattr(verb, "measure_cells", measure_cells)
    board = RivalBoard(**{**vars(SMALL), "tokens": (1024,), "documents": 1})
    found = run_board(opened, board, [], tmp_path).found[0]
    assert len(asked) == 6
    assert asked[0] == (None, "niah_single_1 at 1,024 tokens")
    assert BoardCell("ruler_cwe", 1024) in found.cells
    run_board(opened, board, [], tmp_path)
    assert len(asked) == 6


def test_nothing_to_show_is_said(opened, tmp_path):
    with pytest.raises(ArgumentError, match="the board must hold measurements of the untouched model, got none"):
        run_board(opened, SMALL, ["log-n"], tmp_path, show=True)


def test_an_unknown_rival_is_refused(opened, tmp_path):
    with pytest.raises(ArgumentError, match="rivals must be known, got 'lora'"):
        run_board(opened, SMALL, ["lora"], tmp_path)
