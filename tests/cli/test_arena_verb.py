import json

import pytest
from click.testing import CliRunner

from strop.cli.group import strop

SMALL = [
    *("arena", "--tasks", "average", "--normalisers", "softmax,adaptive", "--seeds", "1", "--rates", "0.004"),
    *("--steps", "5", "--batch", "4", "--sizes", "4,20", "--problems", "16", "--workers", "1"),
]


def invoke(*arguments):
    return CliRunner().invoke(strop, list(arguments))


def test_a_small_arena_as_json_then_shown_from_disk(tmp_path):
    once = invoke(*SMALL, "--out", str(tmp_path), "--json")
    assert once.exit_code == 0, once.output
    found = json.loads(once.stdout)
    assert {row["entry"] for row in found["records"]} == {"softmax", "adaptive"}
    assert found["failed"] == {}
    shown = invoke(*SMALL, "--show", "--out", str(tmp_path))
    assert shown.exit_code == 0
    assert "2 of 2 models tested." in shown.stdout
    assert "average (control)" in shown.stdout
    assert (tmp_path / "arena" / "report.html").stat().st_size > 10_000


def test_show_runs_nothing(tmp_path):
    shown = invoke(*SMALL, "--show", "--out", str(tmp_path))
    assert shown.exit_code != 0
    assert "must hold finished runs of this arena, got none. Run it, or repeat its settings" in shown.output
    assert not list(tmp_path.rglob("*"))  # above all, the page of another arena is not replaced by an empty one


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tasks", "max_retreival"], "Did you mean 'max_retrieval'?"),
        (["--normalisers", "sofmax"], "Did you mean 'softmax'?"),
        (["--normalisers", "top_k(k=0)"], "k must be a whole number of at least 1, got 0"),
        (["--sizes", "4,20,4"], "sizes must not repeat, got 4 more than once"),
        (["--address", "auto"], "--address must come with --engine ray"),
        (["--engine", "ray", "--workers", "2"], "--workers must be left out with --engine ray"),
        (["--problems", "8"], "8 is not in the range"),
        (["--normalisers", ""], "normalisers must name one or more"),
        (["--rates", "fast"], "--rates must be numbers between commas, got 'fast'"),
        (["--tasks", "recall", "--sizes", "100000"], "size of recall must be at most"),
        (["--seeds", "0"], "0 is not in the range"),
        (["--engine", "slurm"], "'slurm' is not one of 'local', 'ray'"),
    ],
)
def test_bad_settings_are_one_line_and_leave_nothing(arguments, message, tmp_path):
    done = invoke("arena", *arguments, "--out", str(tmp_path))
    assert done.exit_code == 2
    assert message in done.output
    assert "Traceback" not in done.output
    assert not list(tmp_path.iterdir())


def test_a_folder_of_another_version_is_one_line(tmp_path):
    assert invoke(*SMALL, "--out", str(tmp_path)).exit_code == 0
    for mark in tmp_path.rglob("done.json"):
        mark.write_text(json.dumps(json.loads(mark.read_text()) | {"format": 99}))
    done = invoke(*SMALL, "--show", "--out", str(tmp_path))
    assert done.exit_code == 1
    assert "another version of strop wrote it" in done.output
    assert "Traceback" not in done.output


def test_a_failed_run_is_told_with_its_reason_and_an_exit_code(tmp_path):
    """A rate at which everything overflows."""
    done = invoke(*SMALL, "--rates", "1e38", "--out", str(tmp_path))
    assert done.exit_code == 1
    assert "failed: average, softmax, seed 0, rate 1e+38: " in done.output
    assert "0 of 2 models tested." in done.output
