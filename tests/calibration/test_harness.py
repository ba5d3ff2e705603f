"""lm-evaluation-harness runs the sharpened model; without the extra `judge` there is nothing to test."""

import importlib.util
from pathlib import Path

import pytest
import tiny
import torch

from strop import sharpened
from strop.edges.edge import Edge
from strop.edges.temperatures import Constant
from strop.tasks.answers import answer_questions
from strop.tasks.passages import Passage

pytest.importorskip("lm_eval", reason="needs the extra judge")


def example():
    path = Path(__file__).parents[2] / "examples" / "extras" / "lm_eval_harness.py"
    spec = importlib.util.spec_from_file_location("lm_eval_harness", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def own_accuracy(model, task) -> float:
    """Our own reading of the same rows: is the first choice the likeliest?"""
    import json

    rows = [json.loads(line) for line in Path(task["dataset_kwargs"]["data_files"]["test"]).read_text().splitlines()]
    right = 0
    for row in rows:
        asked = Passage("", tuple((row["prompt"], choice) for choice in row["choices"]))
        found = [one.log_likelihood for one in answer_questions(model, tiny.reader().encode(asked))]
        right += found.index(max(found)) == row["label"]
    return right / len(rows)


@pytest.mark.filterwarnings("ignore")
def test_the_harness_sees_the_sharpened_model(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    model, harness = tiny.model(), example()
    rules = {f"model.layers.{i}.self_attn": Constant(torch.full((4, 1), 1.5)) for i in range(2)}
    edge = Edge.of(model, {"constant": rules})
    task = harness.recall_task(size=4, prompts=24)
    before = harness.accuracy(model, tiny.tokeniser(), task)
    assert before == pytest.approx(own_accuracy(model, task))
    with sharpened(model, edge):
        after = harness.accuracy(model, tiny.tokeniser(), task)
        assert after == pytest.approx(own_accuracy(model, task))
    assert after != before
