import importlib
import inspect
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from strop import calibrate, evaluate, probe
from strop.cli import options


def verb(
    model: str,
    lengths: Sequence[int] = (128, 512),
    bounds: tuple[int, int] = (8, 24),
    *,
    rate: float = 0.25,
    steps: int = 42,
    seed: int = 0,
    outputs: bool = True,
    silent: bool = False,
    form: str = "constant",
    guard: Sequence[str] | None = None,
    text: str | Path | None = None,
) -> None:
    """Do something.

    Args:
        model: Which one.
        lengths: Tokens of prose. None: never shown.
        bounds: Smallest and largest.
        rate: First step,
            as a share.
        steps: Steps of the descent.
        seed: Seed of all randomness.
        outputs: Scale outputs too.
        silent: Say nothing.
        form: What β depends on.
        guard: Tasks on which to do no harm. None: the other ones.
        text: UTF-8 text to read.

    Returns:
        Nothing.
    """


@click.command(epilog=options.examples("strop probe smollm2   # a model", "strop probe ./mine"))
@options.json_flag
@options.of(
    verb,
    "bounds",
    "rate",
    "steps",
    "seed",
    "outputs",
    "silent",
    "form",
    "guard",
    "text",
    steps=2,
    words={"form": "Which form."},
)
@options.threads
@options.out("runs/probe")
@click.option("--lengths", type=options.Integers(minimum=2), default="128,512")
def command(**given):
    click.echo(repr(given))


def test_shared_options_have_the_same_defaults_everywhere():
    given = eval(CliRunner().invoke(command, []).output, {"PosixPath": Path})
    assert given == {
        "as_json": False, "seed": 0, "threads": None, "out": Path("runs/probe"), "lengths": (128, 512),
        "bounds": (8, 24), "rate": 0.25, "steps": 42, "outputs": True, "silent": False, "form": "constant",
        "guard": None, "text": None,
    }  # fmt: skip


def test_options_are_of_the_kind_of_the_arguments(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("x.txt").write_text("words")
    words = ["--bounds", "2,3", "--rate", "1", "--steps", "2", "--no-outputs", "--silent", "--form", "none"]
    words += ["--guard", "a,b", "--text", "x.txt"]
    given = eval(CliRunner().invoke(command, words).output, {"PosixPath": Path})
    assert given["bounds"] == (2, 3)
    assert given["guard"] == ("a", "b")
    assert given["text"] == Path("x.txt")
    assert (given["rate"], given["steps"], given["outputs"], given["silent"]) == (1.0, 2, False, True)
    nothing = eval(CliRunner().invoke(command, ["--guard", "none"]).output, {"PosixPath": Path})
    assert nothing["guard"] == ()


def test_help_says_what_the_docstring_says_and_the_default():
    text = " ".join(CliRunner().invoke(command, ["--help"], terminal_width=200).output.split())
    for words in (
        "Smallest and largest. [default: 8,24]",
        "First step, as a share. [default: 0.25]",
        "Steps of the descent. [default: 42; x>=2]",
        "--outputs / --no-outputs Scale outputs too. [default: outputs]",
        "--silent Say nothing.",
        "--form TEXT Which form. [default: constant]",
        "Tasks on which to do no harm. [default: the other ones]",
        "UTF-8 text to read.",
    ):
        assert words in text, words
    assert options.document_arguments(verb)["model"] == "Which one."


@pytest.mark.parametrize(
    ("function", "hidden"),
    [
        (probe, {"model", "tokenizer", "name", "progress"}),
        (calibrate, {"model", "tokenizer", "name", "progress"}),
        (evaluate, {"model", "tokenizer", "name", "progress"}),
    ],
)
def test_every_argument_of_a_verb_is_documented_and_has_an_option(function, hidden):
    documented = options.document_arguments(function)
    wanted = set(inspect.signature(function).parameters)
    assert set(documented) == wanted
    verb = importlib.import_module(f"strop.cli.{function.__name__}").command
    assert wanted - hidden <= {parameter.name for parameter in verb.params}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--lengths", "1,8"], "must be at least 2, got 1"),
     (["--lengths", "a"], "must be integers between commas, got 'a'"),
     (["--lengths", ""], "must be integers"), (["--seed", "-1"], "x>=0"), (["--threads", "0"], "x>=1"),
     (["--steps", "1"], "x>=2"), (["--rate", "fast"], "not a valid float")],
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
