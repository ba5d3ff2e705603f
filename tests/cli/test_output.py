import io
import json
import math
import sys

from strop.cli import output
from strop.report.tables import Table


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_silent_away_from_a_terminal_and_under_json(monkeypatch):
    for stream, quiet in ((io.StringIO(), False), (Terminal(), True)):
        monkeypatch.setattr(sys, "stderr", stream)
        with output.progress("training", 3, quiet=quiet) as bar:
            bar.advance()
            bar.update(text="evaluating", completed=2, total=4)
            bar.say("hello")
        assert stream.getvalue() == ""


def test_progress_shows_counts_and_time_left_on_a_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with output.progress("training [x]", 3) as bar:
        bar.advance(2)
        bar.say("seed [1] done")
    shown = sys.stderr.getvalue()
    assert "training [x]" in shown
    assert "2/3" in shown
    assert "left" in shown
    assert "seed [1] done\n" in shown


def test_a_table_in_a_pipe_is_never_cut(capsys):
    output.show(Table.of([{f"column {i}": "x" * 40 for i in range(8)}], [f"column {i}" for i in range(8)]))
    lines = capsys.readouterr().out.splitlines()
    assert any(line.count("x" * 40) == 8 for line in lines)
    assert all(line == line.rstrip() for line in lines)


def test_json_is_one_strict_document(capsys):
    output.records_json([{"p": math.inf}], verb="probe")
    assert json.loads(capsys.readouterr().out) == {"verb": "probe", "records": [{"p": None}]}
