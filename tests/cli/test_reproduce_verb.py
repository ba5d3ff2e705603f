import json
import os

import pytest
from click.testing import CliRunner

from strop.cli.group import strop

SMALL = ["reproduce", "--settings", "nearest", "--seeds", "1", "--sizes", "16,64", "--sets", "32", "--steps", "40"]


def invoke(*arguments):
    return CliRunner().invoke(strop, list(arguments))


def test_a_small_study_as_json_then_again_from_disk(tmp_path):
    once = invoke(*SMALL, "--workers", "1", "--out", str(tmp_path), "--json")
    assert once.exit_code == 0, once.output
    found = json.loads(once.stdout)
    assert {row["rule"] for row in found["records"]} >= {"softmax", "adaptive", "train entropy", "calibrated", "hard"}
    assert all(0 <= row["accuracy"] <= 1 for row in found["records"])
    assert (tmp_path / "reproduce" / "report.html").stat().st_size > 10_000
    again = invoke(*SMALL, "--workers", "1", "--out", str(tmp_path))
    assert again.exit_code == 0
    assert "paper: softmax" in again.stdout
    assert "report.html" in again.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sizes", "16,0"], "must be at least 1, got 0"),
        (["--settings", "best"], "settings must be known, got best"),
        (["--train-sizes", "16,5"], "sizes must satisfy 1 <= low <= high"),
        (["--train-sizes", "16"], "must be two sizes"),
        (["--quick", "--steps", "7"], "must be left out with bundled models"),
        (["--quick", "--seeds", "11"], "nearest must have 11 trained models"),
        (
            ["--quick", "--settings", "literal", "--seeds", "1"],
            "or, to train them, leave out --quick",
        ),
        (["--sizes", "16,64,16"], "sizes must not repeat, got 16 more than once"),
        (["--settings", "nearest,nearest"], "settings must not repeat, got nearest more than once"),
        (["--seeds", "0"], "0 is not in the range"),
    ],
)
def test_bad_settings_are_one_line(arguments, message, tmp_path):
    done = invoke("reproduce", *arguments, "--out", str(tmp_path))
    assert done.exit_code == 2
    assert message in done.output
    assert "Traceback" not in done.output


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_an_unwritable_folder_is_found_at_once(tmp_path):
    tmp_path.chmod(0o500)
    done = invoke(*SMALL, "--out", str(tmp_path / "runs"))
    assert done.exit_code == 2
    assert "must be a folder to write to" in done.output


def test_a_file_in_place_of_the_folder_is_found_at_once(tmp_path):
    (tmp_path / "runs").write_text("")
    done = invoke(*SMALL, "--out", str(tmp_path / "runs"))
    assert done.exit_code == 2
    assert "must be a folder to write to" in done.output


def test_help_shows_examples():
    done = invoke("reproduce", "--help")
    assert done.exit_code == 0
    assert "strop reproduce --quick" in done.stdout
