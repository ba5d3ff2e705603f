from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest
import torch
from calibrate import tiny

from strop.evaluate.language import compared, compared_prose, read_prose
from strop.evaluate.suite import Suite, compare, kept, measure
from strop.records import Run

SMALL = Suite(sizes=(2, 3), phrasings=("code",), prompts=4, questions=2, lengths=(24, 32), windows=2)


def test_a_model_beside_itself_changes_nothing():
    model, reader = tiny.model(), tiny.reader()
    measured = measure(model, reader, SMALL)
    found = compare(measured, measured)
    assert [(row["size"], row["prompts"], row["passages"]) for row in found.answers] == [(2, 4, 2), (3, 4, 2)]
    assert all(row["p_mcnemar"] == row["p_passages"] == 1.0 for row in found.answers)
    assert [(row["tokens"], row["change"]) for row in found.prose] == [(24, 0.0), (32, 0.0)]
    assert measured.speed > 0


def test_a_measurement_is_kept_and_read_back(tmp_path: Path):
    model, reader, config = tiny.model(), tiny.reader(), {"suite": SMALL}
    run = Run.of(config, "evaluate", tmp_path)
    first = kept(run, config, model, reader, SMALL)
    again = kept(run, config, None, reader, SMALL)  # type: ignore[arg-type]  # the model is not asked
    assert again == first


def test_what_another_process_measures_is_waited_for_and_not_measured_again(tmp_path: Path):
    model, reader, config = tiny.model(), tiny.reader(), {"suite": SMALL}
    run, other = Run.of(config, "evaluate", tmp_path), Run.of(config, "evaluate", tmp_path / "other")
    found = kept(other, config, model, reader, SMALL)
    with ThreadPoolExecutor(1) as pool:
        with run.claimed():
            second = pool.submit(kept, run, config, None, reader, SMALL)  # type: ignore[arg-type]  # it is not asked
            with pytest.raises(TimeoutError):
                second.result(timeout=0.3)
            copytree(other.folder, run.folder, dirs_exist_ok=True)
        assert second.result(timeout=60) == found


def test_a_suite_asks_nothing_twice():
    for changes in ({"sizes": (2, 2)}, {"phrasings": ("code", "code")}, {"lengths": (24, 24)}):
        with pytest.raises(ValueError, match="must not repeat, got"):
            replace(SMALL, **changes)


def test_gains_and_losses_are_counted():
    rows = [
        {"task": "t", "phrasing": "p", "size": 1, "passage": i, "question": 0, "exact": right, "nats": 1.0}
        for i, right in enumerate([True, True, False, False])
    ]
    after = [{**row, "exact": right, "nats": 0.5} for row, right in zip(rows, [True, False, True, True], strict=True)]
    (found,) = compared(rows, after)
    assert (found["before"], found["after"], found["gains"], found["losses"]) == (0.5, 0.75, 2, 1)
    assert (found["nats_before"], found["nats_after"]) == (1.0, 0.5)
    with pytest.raises(ValueError, match="same prompts"):
        compared(rows, after[:3])
    row = compared_prose(8, [1.0, 2.0], [1.1, 2.3])
    assert row["change"] == pytest.approx(0.2)
    assert row["standard_error"] == pytest.approx(0.1)


def test_prose_loss_is_torchs_cross_entropy():
    model, ids = tiny.model(), torch.cat(tiny.prose(2, 20))
    wanted = [torch.nn.functional.cross_entropy(model(row[None]).logits[0, :-1], row[1:]) for row in ids]
    assert read_prose(model, ids) == pytest.approx([float(loss) for loss in wanted], abs=1e-5)


def test_prompts_are_as_many_as_asked_and_of_the_test_split():
    suite = Suite(task="maximum", sizes=(5,), prompts=6, questions=8)
    passages = suite.passages()
    assert len(passages) == 3 * 6  # one question a list, three phrasings: one known and two held out
    assert Suite(sizes=(3,), prompts=9, questions=8, phrasings=("room",)).passages()[0].questions[2:]
    assert suite.checksum() != Suite(task="maximum", sizes=(5,), prompts=6, seed=1).checksum()
    with pytest.raises(ValueError, match="prompts must be at least 1"):
        Suite(prompts=0)
