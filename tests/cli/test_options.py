from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from strop.cli import options


@click.command(epilog=options.examples("strop probe smollm2   # a model", "strop probe ./mine"))
@options.json_flag
@options.seed
@options.threads
@options.out("runs/probe")
@click.option("--lengths", type=options.Integers(minimum=2), default="128,512")
def command(**given):
    click.echo(repr(given))


def test_shared_options_have_the_same_defaults_everywhere():
    given = eval(CliRunner().invoke(command, []).output, {"PosixPath": Path})
    assert given == {
        "as_json": False, "seed": 0, "threads": None, "out": Path("runs/probe"), "lengths": (128, 512)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--lengths", "1,8"], "must be at least 2, got 1"),
     (["--lengths", "a"], "must be integers between commas, got 'a'"),
     (["--lengths", ""], "must be integers"), (["--seed", "-1"], "x>=0"), (["--threads", "0"], "x>=1")],
)  # fmt: skip
def test_bad_values_are_told(arguments, words):
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2
    assert words in result.stderr


def test_examples_stay_as_they_are():
    text = CliRunner().invoke(command, ["--help"]).output
    assert "Examples:\n    strop probe smollm2   # a model\n    strop probe ./mine\n" in text


def test_use_threads(monkeypatch):
    torch = pytest.importorskip("torch")
    asked = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    options.use_threads(None)
    options.use_threads(1)
    assert asked == [1]
