import dataclasses
import json
import math
from pathlib import Path

import pytest

from strop.engine import Serial
from strop.records import DamagedFileError, StropError, read
from strop.studies.retrieval import SETTINGS, Study, jobs, reproduce
from strop.studies.retrieval.evaluation.fits import fit_rules
from strop.studies.retrieval.report.claims import judge_claims
from strop.studies.retrieval.report.groups import HINDSIGHT, RECOMMENDED, distance_to_paper, sort_into_groups
from strop.studies.retrieval.report.tables import accuracy_table, validation_table
from strop.studies.retrieval.settings import PUBLISHED
from strop.studies.retrieval.study import PAPER_SIZES

FIGURES = ("accuracy", "dispersion", "growth", "order", "refit", "weights-nearest")
TINY = Study(settings=("nearest",), seeds=2, sizes=(16, 64), sets=64, survey_sets=3000, steps=300)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    root = tmp_path_factory.mktemp("study")
    return reproduce(TINY, root, Serial())


def test_a_study_has_every_row_at_every_size(finished):
    assert [(m.kind, m.train.seed) for m in finished.models] == [
        ("last", 0),
        ("average", 0),
        ("last", 1),
        ("average", 1),
    ]
    found = finished.groups
    assert [g.name for g in found] == ["nearest", "nearest, weights averaged"]
    wanted = {
        "softmax", "adaptive", "adaptive, held", "refit", "train entropy", "log n", "1 + log", "power",
        "calibrated",
        "oracle weight", "oracle any", "hard", "true maximum", HINDSIGHT,
    }  # fmt: skip
    for group in found:
        assert set(group.by_rule) == wanted
        assert all(len(group.by_rule[rule][n]) == 2 for rule in wanted for n in (16, 64))
        assert group.seeds == 2
    assert RECOMMENDED in wanted


def test_the_same_study_gives_the_same_bytes(finished, tmp_path):
    assert reproduce(TINY, tmp_path, Serial()).records == finished.records


def test_results_are_written_with_where_they_come_from(finished):
    folder = finished.root / "reproduce"
    assert finished.report() == folder / "report.html"
    rows = read(folder / "records.jsonl")
    assert rows[0]["what"] == "provenance"
    assert {"torch", "strop", "commit", "config"} <= rows[0].keys()
    assert tuple(rows[1:]) == finished.records
    page = (folder / "report.html").read_text()
    assert page.count("<svg") == 6
    assert "What temperature cannot mend" in page
    assert {p.name for p in (folder / "figures").iterdir()} == {f"{name}.png" for name in FIGURES}
    table = (folder / "table1.md").read_text()
    assert "| paper: softmax | 98.6 | 94.3 |" in table


def test_finished_work_is_not_done_again(finished, monkeypatch):
    for name in ("_survey", "_evaluate"):
        monkeypatch.setattr(jobs, name, lambda *_: pytest.fail("done again"))
    assert reproduce(TINY, finished.root, Serial()).records == finished.records


def test_a_lost_mark_costs_one_run_and_changes_nothing(finished):
    mark = sorted((finished.root / "reproduce").glob("*/done.json"))[0]
    mark.unlink()
    assert reproduce(TINY, finished.root, Serial()).records == finished.records


def test_damaged_results_are_never_read_as_good_ones(finished, tmp_path):
    root, models = finished.root, finished.models
    evaluated = [p.parent for p in (root / "reproduce").glob("*/config.json") if "train_entropy" in p.read_text()]
    folder = sorted(evaluated)[0]
    kept = (folder / "records.jsonl").read_bytes()
    (folder / "records.jsonl").write_bytes(kept.replace(b"0.", b"1.", 1))
    with pytest.raises(StropError, match="must hold what was written"):
        reproduce(TINY, root, Serial())
    (folder / "records.jsonl").write_bytes(kept)
    damaged = tmp_path / "weights.safetensors"
    data = bytearray(Path(models[0].path).read_bytes())
    data[-5000] ^= 4
    damaged.write_bytes(data)
    with pytest.raises(DamagedFileError, match="another checksum"):
        dataclasses.replace(models[0], path=str(damaged)).load()


def test_fits_see_no_size_above_64(finished):
    surveyed = [row for row in finished.records if "what" in row and row["what"] != "fit"]
    assert max(row.get("n") or 0 for row in surveyed) == 64
    fitted = fit_rules(surveyed, 16)["nearest", "last"]
    assert fitted.gamma is not None
    assert len(fitted.refit) == 5
    assert 0 < fitted.train_entropy < 3


def test_the_table_stands_beside_the_published_row(finished):
    table = accuracy_table(finished.groups[0])
    assert table.rows[0] == ["paper: softmax", "98.6", "94.3"]
    assert json.dumps(table.records())


def test_published_rows_have_every_size():
    assert len(PAPER_SIZES) == 11
    assert PAPER_SIZES[-1] == 16384
    assert all(len(row) == 11 for row in PUBLISHED.values())
    assert {"nearest", "decay"} <= SETTINGS.keys()


def test_claims_are_judged_by_numbers(finished):
    records, found = finished.records, finished.groups
    assert distance_to_paper(found[0]) is None  # two sizes are not the published row
    judged = {claim.text.split(": ")[1]: claim.holds for claim in judge_claims(found[:1])}
    assert len(judged) == 4
    unmeasured = [claim for claim in judge_claims(found[:1]) if claim.evidence == "no such size was measured"]
    assert [claim.text.split(" from ")[1] for claim in unmeasured] == ["256 items on", "2048 items on"]
    assert not any(claim.holds for claim in unmeasured)
    raised = [
        {**row, "accuracy": row["accuracy"] + 0.2} if row.get("rule") == RECOMMENDED and "what" not in row else row
        for row in records
    ]
    worse = [
        {**row, "accuracy": row["accuracy"] - 0.2} if row.get("rule") == RECOMMENDED and "what" not in row else row
        for row in records
    ]
    name = "the recommended rule is at least as good as adaptive temperature at every size"
    assert {c.text: c.holds for c in judge_claims(sort_into_groups(raised))}[f"nearest: {name}"]
    assert not {c.text: c.holds for c in judge_claims(sort_into_groups(worse))}[f"nearest: {name}"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"sizes": (16, 0)}, "sizes must hold sizes of at least 1"),
        ({"settings": ("nearst",)}, "settings must be known, got nearst. Known: nearest"),
        ({"seeds": 0}, "seeds must be at least 1, got 0"),
        ({"bundled": True, "steps": 5}, "must be left out with bundled models"),
    ],
)
def test_bad_studies_are_named(bad, message):
    with pytest.raises(ValueError, match=message):
        Study(**bad)


def test_any_number_of_classes(tmp_path):
    study = dataclasses.replace(TINY, classes=3, seeds=1, sizes=(8,), steps=20, survey_sets=500)
    assert 0.1 < reproduce(study, tmp_path, Serial()).groups[0].mean("softmax", 8) <= 1


def test_another_training_size_reaches_rules_and_words(tmp_path):
    study = dataclasses.replace(TINY, seeds=1, train_sizes=(2, 8), sizes=(8, 32))
    result = reproduce(study, tmp_path, Serial())
    group = result.groups[0]
    assert group.trained_size == study.trained_size == 8
    assert {row["n"] for row in group.survey if row["what"] == "validation"} == {8, 16, 32}
    assert group.beta["log n"][32] == pytest.approx([math.log(32) / math.log(8)])
    assert group.beta["1 + log"][32] == pytest.approx([1 + math.log(4)])
    assert [column.title for column in validation_table([group]).columns][-2] == "mean, 8 to 32 items"
    page = result.report(tmp_path / "mine" / "page.html").read_text()
    assert "Training sees at most 8 items" in page
    assert "at most 16" not in page
    assert "--train-sizes 2,8" in page
    assert (tmp_path / "mine" / "table1.md").exists()  # beside the page
    assert "Trained on at most 8 items, shown 32 (nearest): softmax" in result.headline


def test_the_command_of_a_study_is_what_made_it():
    assert Study().command == "strop reproduce"
    assert Study.quick().command == "strop reproduce --quick"
    assert Study.quick(seeds=2).command == "strop reproduce --quick --seeds 2"
    small = Study(settings=("nearest",), seeds=2, sizes=(16, 64), classes=7)
    assert small.command == "strop reproduce --settings nearest --seeds 2 --sizes 16,64 --classes 7"
