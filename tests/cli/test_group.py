import importlib.machinery
import os
import signal
import subprocess
import sys
import types
import warnings
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from strop import _extras as extras
from strop.cli import group
from strop.cli.kept import keep
from strop.errors import RecordsError, StropWarning

LISTED = [verb for verb in group.VERBS if importlib.util.find_spec(f"strop.cli.{verb}")]
TROUBLE = {
    "ours": RecordsError("runs must be\n  writable, got: no. Choose another."),
    "value": ValueError("sizes must be at least 1, got 0."),
    "system": PermissionError(13, "Permission denied", "/somewhere"),
    "module": ModuleNotFoundError("No module named 'ray'", name="ray"),
    "bug": KeyError("a bug of ours"),
    "interrupt": KeyboardInterrupt(),
}
ANNOUNCED = {"ours": StropWarning("prose is read at 64 tokens."), "theirs": DeprecationWarning("old")}


@pytest.fixture
def verb(monkeypatch):
    """A verb `arena` that raises what it is told to."""
    monkeypatch.setattr(extras, "extras", lambda: {"ray": ["ray"]})

    @click.command()
    @click.argument("what")
    @click.option("--seeds", type=int)
    def command(what, seeds):
        if what.startswith("kept"):
            folder = Path(what.partition(" ")[2])
            keep("finished runs", folder, "*/done.json")
            (folder / "new").mkdir()
            if "nothing" not in what:
                (folder / "new" / "done.json").write_text("")
            raise KeyboardInterrupt
        if what.startswith("warn"):
            warnings.warn(ANNOUNCED[what.partition(" ")[2]], stacklevel=1)
            return
        raise TROUBLE[what]

    module = types.ModuleType("strop.cli.arena")
    module.__spec__ = importlib.machinery.ModuleSpec("strop.cli.arena", None)
    module.command = command
    monkeypatch.setitem(sys.modules, "strop.cli.arena", module)


def run(*arguments):
    return CliRunner().invoke(group.strop, arguments, prog_name="strop")


@pytest.mark.parametrize(
    ("what", "code", "words"),
    [("ours", 1, "strop: runs must be\n  writable, got: no. Choose another.\n"),
     ("value", 2, "strop: sizes must be at least 1, got 0.\n"),
     ("system", 1, "strop: [Errno 13] Permission denied: '/somewhere'\n"),
     ("module", 2, "strop: this needs the package 'ray'. Add it with: pip install 'strop[ray]' 'torch==")],
)  # fmt: skip
def test_what_the_user_can_mend_is_told_in_words_with_an_exit_code(verb, what, code, words, monkeypatch):
    monkeypatch.setattr(extras, "find_clone", lambda: None)
    result = run("arena", what)
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr.startswith(words)
    assert "Traceback" not in result.stderr


def test_words_wrap_at_the_width_of_the_terminal(verb, monkeypatch):
    monkeypatch.setattr(group, "columns", lambda _: 30)
    assert run("arena", "ours").stderr == "strop: runs must be\n  writable, got: no. Choose\n  another.\n"


def test_the_traceback_is_there_for_the_asking(verb):
    result = run("--traceback", "arena", "value")
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert "ValueError: sizes must be" in result.stderr


def test_a_bug_is_not_hidden(verb):
    assert isinstance(run("arena", "bug").exception, KeyError)


def test_ctrl_c_says_what_is_kept_and_exits_130(verb, tmp_path):
    (tmp_path / "nothing").mkdir()
    result = run("arena", f"kept {tmp_path}")
    kept = f"\nstrop: interrupted. Kept: finished runs in {tmp_path}. The same command continues.\n"
    assert (result.exit_code, result.stderr) == (130, kept)
    nothing = "\nstrop: interrupted. Nothing new was finished, and nothing is half-written.\n"
    assert run("arena", f"kept {tmp_path}/nothing").stderr == nothing
    assert run("arena", "interrupt").stderr == nothing


def test_what_was_there_before_is_not_called_kept(verb, tmp_path):
    (tmp_path / "nothing" / "old").mkdir(parents=True)
    old = tmp_path / "nothing" / "old" / "done.json"
    old.write_text("")
    os.utime(old, (1, 1))
    assert "Nothing new was finished" in run("arena", f"kept {tmp_path}/nothing").stderr


@pytest.mark.filterwarnings("always")
def test_a_remark_is_a_plain_line_and_another_packages_warning_is_whole(verb):
    result = run("arena", "warn ours")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "prose is read at 64 tokens.\n")
    assert "DeprecationWarning: old" in run("arena", "warn theirs").stderr


def test_unknown_words_suggest_the_nearest(verb):
    for arguments, words in [
        (["areno"], "No verb 'areno'. Did you mean arena?"),
        (["xyzzy"], f"No verb 'xyzzy'. Verbs: {', '.join(v for v in group.VERBS if v in {*LISTED, 'arena'})}."),
        (["arena", "ours", "--seed"], "Did you mean '--seeds'?"),
        (["--tracebac"], "Did you mean '--traceback'?"),
    ]:
        result = run(*arguments)
        assert result.exit_code == 2
        assert words in result.stderr.replace("--seeds?", "'--seeds'?").replace("--traceback?", "'--traceback'?")


def test_only_verbs_that_exist_are_listed():
    shown = run("--help").output.partition("Verbs:")[2]
    assert [line.split()[0] for line in shown.splitlines() if line.startswith("  ") and line[2] != " "] == LISTED


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], *([verb, "--help"] for verb in LISTED)])
def test_help_is_quick_and_imports_nothing_heavy(arguments):
    code = (
        "import sys\nfrom strop.cli import main\n"
        "try: main()\n"
        "finally: print({'torch', 'numpy', 'scipy', 'transformers', 'matplotlib', 'jinja2', 'ray'} & set(sys.modules))"
    )
    out = subprocess.check_output([sys.executable, "-c", code, *arguments], text=True)
    assert out.splitlines()[-1] == "set()"


def test_help_answers_in_well_under_half_a_second():
    def seconds():
        before = os.times()
        subprocess.run([sys.executable, "-c", "from strop.cli import main; main()", "--help"], check=True, stdout=-3)
        after = os.times()
        return (after.children_user + after.children_system) - (before.children_user + before.children_system)

    assert min(seconds() for _ in range(3)) < 0.4


def test_missing_click_is_told():
    code = "import sys; sys.modules['click'] = None\nfrom strop.cli import main\nmain()"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert told.returncode != 0
    assert told.stderr.startswith("strop: the command line needs click. Add it with: pip install ")
    assert "strop doctor" in told.stderr


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_doctor_runs_with_the_core_alone(flags):
    lacking = "for name in ('click', 'rich', 'jinja2', 'matplotlib', 'transformers'): sys.modules[name] = None"
    code = f"import sys; {lacking}\nfrom strop.cli import main\nmain()"
    told = subprocess.run([sys.executable, "-c", code.replace("; for", "\nfor"), "doctor", *flags], **PIPES)
    assert told.returncode == 0, told.stderr
    assert "instruction" in told.stdout


PIPES = {"capture_output": True, "text": True}

VERB = """
import sys, time, types, importlib.machinery, click
from strop.cli import main
from strop._progress import show_progress
from pathlib import Path
from strop.cli.kept import keep
from strop.cli.output import say
@click.command()
@click.argument("what")
def command(what):
    if what == "flood":
        for _ in range(100_000): say("a long line of text")
    Path(what).write_text("")
    keep("seed 3", Path(what))
    with show_progress("training", 100) as bar:
        print("ready", flush=True)
        time.sleep(60)
module = types.ModuleType("strop.cli.arena")
module.__spec__ = importlib.machinery.ModuleSpec("strop.cli.arena", None)
module.command = command
sys.modules["strop.cli.arena"] = module
main()
"""


def start(what):
    command = [sys.executable, "-c", VERB, "arena", what]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_reader_that_leaves_ends_us_quietly():
    child = start("flood")
    assert child.stdout.readline() == "a long line of text\n"
    child.stdout.close()
    assert child.stderr.read() == ""
    child.stderr.close()
    assert child.wait(timeout=10) == 1


def test_a_real_ctrl_c(tmp_path):
    child = start(str(tmp_path / "seed"))
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGINT)
    _, told = child.communicate(timeout=10)
    assert (child.returncode, told) == (
        130,
        f"\nstrop: interrupted. Kept: seed 3 in {tmp_path}/seed. The same command continues.\n",
    )


def test_a_verb_that_processes_cannot_share_is_refused_under_torchrun(monkeypatch):
    for name, value in (("TORCHELASTIC_RUN_ID", "1"), ("WORLD_SIZE", "2")):
        monkeypatch.setenv(name, value)
    found = run("probe", "smollm2")
    assert found.exit_code == 2
    assert "torchrun can share calibrate and evaluate, not probe. Start it without torchrun." in found.stderr
    assert run("calibrate", "--help").exit_code == 0
