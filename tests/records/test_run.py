import json

import pytest

from strop import records

CONFIG = {"seed": 3}
ROWS = [{"n": 16, "accuracy": 0.5}, {"n": 32, "accuracy": 0.25}]


def finished(tmp_path):
    run = records.Run.of(CONFIG, "arena", tmp_path)
    run.finish(CONFIG, ROWS)
    return run


def test_a_run_counts_only_when_finished(tmp_path):
    run = records.Run.of(CONFIG, "arena", tmp_path)
    assert run.folder == tmp_path / "arena" / records.short_id(CONFIG)
    assert not tmp_path.joinpath("arena").exists()
    run.begin(CONFIG)
    records.write(run.folder / "records.jsonl", ROWS)
    assert not run.finished
    assert records.runs("arena", tmp_path) == []
    with pytest.raises(records.RecordsError, match=r"done\.json must exist"):
        run.records()
    run.finish(CONFIG, ROWS)
    assert run.finished
    assert records.runs("arena", tmp_path) == [run]
    assert run.records() == ROWS
    assert run.config() == CONFIG
    assert run.done()["records"] == 2


def test_an_experiment_without_runs_has_none(tmp_path):
    assert records.runs("nothing", tmp_path) == []


@pytest.mark.parametrize("name", ["records.jsonl", "config.json"])
def test_a_changed_file_is_never_read_as_good(tmp_path, name):
    run = finished(tmp_path)
    path = run.folder / name
    path.write_text(path.read_text().replace("3", "4"))
    with pytest.raises(records.DamagedFileError, match="got a changed file"):
        run.records()


def test_a_damaged_mark_and_another_version_are_told_apart(tmp_path):
    run = finished(tmp_path)
    mark = run.folder / "done.json"
    mark.write_text(json.dumps({**json.loads(mark.read_text()), "format": 2}))
    with pytest.raises(records.RecordsError, match="must have format 1, got 2: another version"):
        run.records()
    for damage in ("", "[]", "{}", '{"format": 1}'):
        mark.write_text(damage)
        with pytest.raises(records.DamagedFileError, match="got damaged text"):
            run.records()


def test_begin_keeps_a_config_that_is_right_and_mends_one_that_is_torn(tmp_path):
    run = records.Run.of(CONFIG, "arena", tmp_path)
    run.begin(CONFIG)
    before = (run.folder / "config.json").stat().st_mtime_ns
    run.begin(CONFIG)
    assert (run.folder / "config.json").stat().st_mtime_ns == before
    (run.folder / "config.json").write_text('{"se')
    with pytest.raises(records.DamagedFileError, match="must be JSON"):
        run.config()
    run.begin(CONFIG)
    assert run.config() == CONFIG


def test_finished_runs_are_in_an_index_and_the_last_one_is_linked(tmp_path):
    for experiment, seed in (("arena", 1), ("probe", 2), ("arena", 3)):
        records.Run.of({"seed": seed}, experiment, tmp_path).finish({"seed": seed}, ROWS)
    rows = records.read(tmp_path / "index.jsonl")
    assert [row["experiment"] for row in rows] == ["arena", "probe", "arena"]
    last = tmp_path / str(rows[-1]["run"])
    assert records.Run(last).config() == {"seed": 3}
    assert (tmp_path / "latest").resolve() == last.resolve()
    assert (tmp_path / "latest" / "records.jsonl").exists()
    assert len(records.runs("arena", tmp_path)) == 2  # the link is no run of its own


def test_a_folder_that_is_called_latest_is_left_alone(tmp_path):
    (tmp_path / "latest").mkdir()
    assert finished(tmp_path).finished
    assert not (tmp_path / "latest").is_symlink()
