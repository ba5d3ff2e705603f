"""`strop reproduce clrs-text`: from bundled results, from a tiny training, and what it refuses."""

import json

import pytest
from click.testing import CliRunner

from strop.cli.group import strop

VERB = ("reproduce", "clrs-text")


def invoke(*arguments):
    return CliRunner().invoke(strop, [*VERB, *arguments])


@pytest.mark.parametrize(
    ("name", "asked"),
    [("decoder", ()), ("smollm2", ("--model", "smollm2")), ("drawn", ("--positions", "drawn"))],
)
def test_quick_makes_the_page_from_bundled_results(name, asked, tmp_path):
    done = invoke("--quick", *asked, "--out", str(tmp_path), "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert any("at inference alone" in verdict for verdict in found["verdicts"])
    assert {row["arm"] for row in found["records"]} >= {"softmax", "adaptive", "softmax>adaptive"}
    assert (tmp_path / "clrs-text" / f"{name}.html").stat().st_size > 10_000


def test_a_tiny_study_trains_and_the_same_command_continues(tmp_path):
    tiny = ("--algorithms", "minimum", "--arms", "softmax", "--seeds", "1", "--problems", "2")
    small = ("--positions", "drawn", "--width", "16", "--steps", "1")
    arguments = (*tiny, *small, "--workers", "1", "--out", str(tmp_path))
    done = invoke(*arguments)
    assert done.exit_code == 0, done.output
    assert "1 of 1 models tested." in done.stdout
    trained = {path: path.stat().st_mtime for path in tmp_path.glob("clrs-text/*/done.json")}
    assert invoke(*arguments).exit_code == 0
    assert {path: path.stat().st_mtime for path in tmp_path.glob("clrs-text/*/done.json")} == trained


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--quick", "--steps", "7"], "--quick must come alone: --steps would need training"),
        (["--algorithms", "bogosort"], "algorithm must be known, got 'bogosort'"),
        (
            ["--model", "smollm2", "--positions", "drawn"],
            "--positions drawn and --width must come with --model decoder",
        ),
        (["--width", "50"], "width must be an even multiple of heads, got 50 for 4 heads"),
        (["--quick", "--width", "64"], "--quick must come alone: --width would need training"),
        (["--arms", "softmax,hard"], "arm must be known, got 'hard'"),
        (["--address", "auto"], "--address must come with --engine ray"),
    ],
)
def test_bad_settings_are_one_line(arguments, message, tmp_path):
    done = invoke(*arguments, "--out", str(tmp_path))
    assert done.exit_code == 2
    assert message in done.output
    assert "Traceback" not in done.output


def test_help_shows_examples_and_the_other_study_still_runs_without_a_name():
    assert "strop reproduce clrs-text --quick" in invoke("--help").stdout
    assert "clrs-text" in CliRunner().invoke(strop, ["reproduce", "--help"]).stdout
