"""One model's measurement of a suite, made once and kept."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import copytree

import pytest
import tiny

from strop.evaluation.marks import Marks, compare_marks, mark_model, mark_once
from strop.evaluation.suite import Suite
from strop.records import Run

SMALL = Suite(sizes=(2, 3), phrasings=("code",), prompts=4, questions=2, lengths=(24, 32), windows=2)


def not_asked() -> Marks:
    raise AssertionError("measured again")


def test_a_model_beside_itself_changes_nothing():
    model, reader = tiny.model(), tiny.reader()
    measured = mark_model(model, reader, SMALL)
    answers, prose, overall = compare_marks(measured, measured)
    assert [(row["size"], row["prompts"], row["passages"]) for row in answers] == [(2, 4, 2), (3, 4, 2)]
    assert all(row["p_mcnemar"] == row["p_passages"] == 1.0 for row in answers)
    assert [(row["tokens"], row["change"]) for row in prose] == [(24, 0.0), (32, 0.0)]
    assert (overall["prompts"], overall["passages"], overall["p_passages"]) == (8, 4, 1.0)


def test_a_measurement_is_kept_and_read_back(tmp_path: Path):
    model, reader, config = tiny.model(), tiny.reader(), {"suite": SMALL}
    run = Run.of(config, "evaluate", tmp_path)
    first = mark_once(run, config, lambda: mark_model(model, reader, SMALL))
    assert mark_once(run, config, not_asked) == first


def test_what_another_process_measures_is_waited_for_and_not_measured_again(tmp_path: Path):
    model, reader, config = tiny.model(), tiny.reader(), {"suite": SMALL}
    run, other = Run.of(config, "evaluate", tmp_path), Run.of(config, "evaluate", tmp_path / "other")
    found = mark_once(other, config, lambda: mark_model(model, reader, SMALL))
    with ThreadPoolExecutor(1) as pool:
        with run.claim():
            second = pool.submit(mark_once, run, config, not_asked)
            with pytest.raises(TimeoutError):
                second.result(timeout=0.3)
            copytree(other.folder, run.folder, dirs_exist_ok=True)
        assert second.result(timeout=60) == found
