import json
from dataclasses import replace
from pathlib import Path

import pytest
import tiny
import torch
from click.testing import CliRunner

from strop.calibration.descent import _Descent
from strop.cli.group import strop
from strop.edges import Edge
from strop.edges.temperatures import Constant
from strop.patching.identity import heads_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.save(tmp_path_factory.mktemp("models") / "tiny")


def invoke(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(strop, [str(word) for word in words])
    assert result.exit_code == code, result.output + result.stderr
    return result.stdout


pytestmark = pytest.mark.filterwarnings("always::strop.errors.StropWarning")  # remarks, which the command line prints

SMALL = ("--sizes", "2,3", "--steps", "4", "--lengths", "48,96,4096", "--test-prompts", "4")


def test_calibrate_then_evaluate(folder: Path, tmp_path: Path):
    edge = tmp_path / "edge.safetensors"
    words = ("calibrate", folder, *SMALL, "--budget", "10", "--out", edge, "--runs", tmp_path / "runs")
    shown = invoke(*words, "--guard-leads")
    assert "Validation loss" in shown
    assert "before, %" in shown
    assert f"Edge: {edge}" in shown
    made = Edge.load(edge)
    assert made.made["model"] == "tiny"
    assert made.made["recipe"]["guard_leads"] is True
    assert made.figures
    assert made.made["progress"]["best_task"] <= made.made["progress"]["first_task"]
    assert made.made["progress"]["valid_harm"] > 0.0  # other tasks were looked at
    assert not list(tmp_path.glob("runs/calibrate/*/state.safetensors"))
    small = ("--sizes", "3", "--prompts", "4", "--lengths", "32,64", "--windows", "2", "--phrasings", "code,room")
    words = ("evaluate", folder, "--edge", edge, "--task", "recall", *small, "--runs", tmp_path / "runs")
    found = json.loads(invoke(*words, "--json"))
    assert {row["phrasing"] for row in found["answers"]} == {"code", "room"}
    assert [row["tokens"] for row in found["prose"]] == [32, 64]
    page = Path(found["report"]).read_text()
    assert "before and after" in page
    assert "Ordinary prose" in page
    assert json.loads(invoke(*words, "--json")) == found  # kept, not measured again
    assert made.made["recipe"]["lengths"] == [48, 96]  # the model has positions for 1,024
    against = json.loads(invoke(*words, "--against", edge, "--json"))
    assert [row["before"] for row in against["answers"]] == [row["after"] for row in found["answers"]]
    assert all(row["gains"] == row["losses"] == 0 and row["p_mcnemar"] == 1 for row in against["answers"])


def test_without_sizes_a_report_goes_to_twenty_times_the_calibrated_one(folder: Path, tmp_path: Path):
    edge = replace(tiny.edge(), made={"recipe": {"task": "passkey", "sizes": (1, 1), "data": None, "seed": 0}})
    edge.save(tmp_path / "edge")
    words = ("evaluate", folder, "--edge", tmp_path / "edge", "--prompts", "2", "--lengths", "32", "--windows", "1")
    shown = invoke(*words, "--runs", tmp_path)
    assert shown.index("Exact answers to passkey as inputs grow") < shown.index("Exact answers, before and after")
    assert "of the first" in shown
    found = json.loads(invoke(*words, "--runs", tmp_path, "--json"))
    assert [row["size"] for row in found["by_size"]] == [1, 2, 4, 8, 12]  # 20 do not fit


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "own.jsonl"
    lines = [json.dumps({"prompt": f"The code of {i} is", "answer": str(i)}) for i in range(10)]
    path.write_text("\n".join(lines))
    return path


def test_calibration_without_a_test_prints_json(folder: Path, tmp_path: Path, data: Path):
    words = (
        "--data",
        data,
        "--steps",
        "2",
        "--lengths",
        "64",
        "--sizes",
        "2,3",
        "--test-prompts",
        "0",
    )
    edge = tmp_path / "edge.safetensors"
    more = ("--json", "--form", "log-n", "--out", edge, "--runs", tmp_path)
    found = json.loads(invoke("calibrate", folder, *words, *more))
    assert found["edge"] == str(edge)
    assert Edge.load(edge).form == "log-n"


def test_a_climb_is_told_a_line_a_rung(folder: Path, tmp_path: Path):
    words = (
        "calibrate",
        folder,
        "--form",
        "auto",
        "--target",
        "100",
        "--sizes",
        "2,3",
        "--steps",
        "1",
        "--lengths",
        "64",
    )
    more = ("--guard", "none", "--test-prompts", "0", "--runs", tmp_path)
    shown = invoke(*words, *more, "--out", tmp_path / "one").splitlines()
    assert [line.split(":")[0] for line in shown[:3]] == ["untouched", "constant", "Kept"]
    assert shown[2].startswith("Kept: constant.")
    found = json.loads(invoke(*words, *more, "--out", tmp_path / "two", "--json"))
    assert found["ladder"]["kept"] == {"form": "constant", "rank": 1}
    assert len(found["ladder"]["rungs"]) == 1


def test_own_prompts_are_tested_on_a_fifth_that_calibration_did_not_see(folder: Path, tmp_path: Path, data: Path):
    words = ("--data", data, "--steps", "1", "--lengths", "64", "--sizes", "2,3", "--guard", "none")
    more = ("--json", "--out", tmp_path / "edge.safetensors", "--runs", tmp_path)
    found = json.loads(invoke("calibrate", folder, *words, *more))
    assert [row["prompts"] for row in found["answers"]] == [2]
    assert [row["tokens"] for row in found["prose"]] == [64]  # the lengths that were asked for


def test_own_prompts_are_evaluated_on_that_fifth_whatever_their_file_is_called(
    folder: Path, tmp_path: Path, data: Path
):
    edge, runs = tmp_path / "edge.safetensors", ("--runs", tmp_path)
    small = ("--steps", "1", "--lengths", "64", "--guard", "none", "--test-prompts", "0", "--seed", "3")
    invoke("calibrate", folder, "--task", "jsonl", "--data", data, *small, "--out", edge, *runs)
    copy, other = tmp_path / "copy.jsonl", tmp_path / "other.jsonl"
    copy.write_text(data.read_text())
    other.write_text(data.read_text().replace("code", "number"))
    prompts = []
    for path, words in ((copy, "measured on the fifth kept for testing"), (other, "would flatter it")):
        more = ("--edge", edge, "--data", path, "--lengths", "64", "--windows", "1", *runs, "--json")
        result = CliRunner().invoke(strop, [str(word) for word in ("evaluate", folder, *more)])
        assert result.exit_code == 0, result.output
        assert words in result.stderr
        found = json.loads(result.stdout)
        prompts.append([row["prompts"] for row in found["answers"]])
    assert prompts == [[2], [10]]
    again = tmp_path / "again.safetensors"
    replace(Edge.load(edge), made={"recipe": {**Edge.load(edge).made["recipe"], "seed": 4}}).save(again)
    words = ("evaluate", folder, "--edge", edge, "--against", again, "--data", data, *runs)
    result = CliRunner().invoke(strop, [str(word) for word in words])
    assert "both edges must keep the same fifth of these prompts" in result.stderr


def test_an_interrupted_test_does_not_cost_the_calibration(folder: Path, tmp_path: Path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    edge = tmp_path / "edge.safetensors"
    words = ("calibrate", folder, *SMALL, "--guard", "none", "--out", edge, "--runs", tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("strop.evaluation.evaluate", interrupted)
        result = CliRunner().invoke(strop, [str(word) for word in words])
        assert result.exit_code == 130
        assert f"Kept: the edge, whole but not yet measured, in {edge}. Measure it with: " in result.stderr
        assert f"strop evaluate {folder} --edge {edge}." in result.stderr
    made = Edge.load(edge)
    assert made.made["progress"]["step"] == 4
    assert made.figures == ()
    small = ("--sizes", "3", "--prompts", "4", "--lengths", "64", "--windows", "1", "--phrasings", "code")
    invoke("evaluate", folder, "--edge", edge, *small, "--runs", tmp_path)


def test_an_interrupted_calibration_goes_on(folder: Path, tmp_path: Path, monkeypatch):
    steps, step = [], _Descent._step

    def stops_at_the_third(self):
        steps.append(self.progress.step)
        if len(steps) == 3:
            raise KeyboardInterrupt
        step(self)

    monkeypatch.setattr(_Descent, "_step", stops_at_the_third)
    small = ("--sizes", "2,3", "--steps", "3", "--every", "9", "--lengths", "64", "--guard", "none")
    words = ("calibrate", folder, *small, "--test-prompts", "0", "--out", tmp_path / "edge", "--runs", tmp_path)
    result = CliRunner().invoke(strop, [str(word) for word in words])
    assert result.exit_code == 130
    assert f"Kept: the steps so far in {tmp_path}/calibrate. The same command continues." in result.stderr
    (state,) = tmp_path.glob("calibrate/*/state.safetensors")
    invoke(*words)
    assert steps == [0, 1, 2, 2]  # the third again
    assert not state.exists()
    assert Edge.load(tmp_path / "edge").made["progress"]["step"] == 3


@pytest.mark.parametrize(
    "words", [("--form", "hold"), ("--task", "text", "--form", "log-n", "--steps", "2", "--guard", "none")]
)
def test_text_alone_is_enough(folder: Path, tmp_path: Path, words):
    edge = tmp_path / "edge.safetensors"
    more = ("--trusted", "48", "--lengths", "64", "--test-prompts", "0", "--out", edge, "--runs", tmp_path)
    assert "Heads: " in invoke("calibrate", folder, *words, *more)
    made = Edge.load(edge)
    assert made.form == ("hold" if "hold" in words else "log-n")
    assert made.form == "hold" or made.made["recipe"]["guard"] == []


def test_bad_input_is_one_line(folder: Path, tmp_path: Path):
    heads, edge = heads_of(tiny.model()), tmp_path / "edge.safetensors"
    rules = {name: Constant(torch.zeros(count, 1)) for name, count in heads.items()}
    Edge.of(tiny.model(), {"constant": rules}).save(edge)
    for words, message in (
        (("calibrate", folder, "--task", "recal"), "Did you mean 'recall'"),
        (("calibrate", folder, "--lengths", "64,64"), "lengths must not repeat"),
        (
            ("calibrate", folder, "--sizes", "3"),
            "sizes must be the smallest and the largest, got (3,). For example 8,24",
        ),
        (("calibrate", folder, "--form", "none", "--no-outputs"), "form must have numbers to learn"),
        (("calibrate", folder, "--phrasings", "ticket"), "must not be held out"),
        (("calibrate", folder, "--guard", "countin"), "Did you mean 'counting'"),
        (("calibrate", folder, "--task", "jsonl"), "--task jsonl must come with --data FILE"),
        (("calibrate", folder, "--form", "auto", "--rank", "4"), "--rank must be left out with --form auto"),
        (("calibrate", folder, "--target", "0.1"), "target must be left out unless the form is auto"),
        (("calibrate", folder, "--form", "hold", "--budget", "0.1"), "--budget must be left out with --form hold"),
        (
            ("evaluate", folder, "--edge", "e", "--data", edge, "--prompts", "9", "--sizes", "4"),
            "--sizes, --prompts must be left out with --data",
        ),
        (("evaluate", folder, "--edge", edge, "--sizes", "4,4"), "sizes must not repeat"),
        (
            ("evaluate", folder, "--edge", tmp_path / "no"),
            "must be a folder, a file or a hub name owner/name, got none of them",
        ),
    ):
        result = CliRunner().invoke(strop, [str(word) for word in words])
        assert result.exit_code == 2, words
        assert message in result.stderr
        remarks = [line for line in result.stderr.splitlines() if line.startswith("strop: ")]
        assert len(remarks) == 1, result.stderr
