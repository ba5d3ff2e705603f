"""Progress on stderr where somebody sees it, and nowhere else."""

import io
import sys

import pytest

from strop import _progress
from strop._progress import show_progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_silent_away_from_a_terminal_and_where_it_is_not_wanted(monkeypatch):
    for stream, shown in ((io.StringIO(), None), (Terminal(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        with show_progress("training", 3, shown) as bar:
            bar.advance()
            bar.update(text="evaluating", completed=2, total=4)
            bar.say("hello")
        assert stream.getvalue() == ""


def test_progress_shows_counts_and_time_left_on_a_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with show_progress("training [x]", 3) as bar:
        bar.advance(2)
        bar.say("seed [1] done")
    shown = sys.stderr.getvalue()
    assert "training [x]" in shown
    assert "2/3" in shown
    assert "left" in shown
    assert "seed [1] done\n" in shown


def test_counts_and_time_left_wait_until_they_are_known(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with show_progress("opening", None) as bar:
        bar.say("one")
        assert "opening" in sys.stderr.getvalue()
        assert "left" not in sys.stderr.getvalue()
        assert "?" not in sys.stderr.getvalue().replace("\x1b[?", "")
        bar.update(completed=1, total=4)
    assert "1/4" in sys.stderr.getvalue()
    assert "left" in sys.stderr.getvalue()


def test_without_rich_there_is_no_bar_and_no_error(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(_progress, "find_spec", lambda name: None)
    with show_progress("training", 3) as bar:
        bar.advance()
        bar.update(text="evaluating")
        bar.say("hello")
    assert sys.stderr.getvalue() == ""


@pytest.fixture(params=[-1, 1])
def loudness(request):
    token = _progress.LOUDNESS.set(request.param)
    yield request.param
    _progress.LOUDNESS.reset(token)


def test_quiet_shows_nothing_and_verbose_writes_lines_where_no_bar_is_seen(monkeypatch, loudness):
    stream = Terminal() if loudness < 0 else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with show_progress("reading", None) as bar:
        bar.update(completed=1, total=4, text="training")
        bar.update(completed=2)
        bar.advance()
    assert stream.getvalue() == ("" if loudness < 0 else "reading\ntraining (1 of 4)\n")


def test_a_narrow_terminal_has_words_and_times_but_no_bar(monkeypatch):
    for width, drawn in ((60, False), (200, True)):
        monkeypatch.setattr(sys, "stderr", Terminal())
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", str(width))
        with show_progress("calibrating: task 1.234, drift 0.0012, harm 0.012", 42) as bar:
            bar.advance(3)
        assert ("━" in sys.stderr.getvalue()) == drawn
        assert "3/42" in sys.stderr.getvalue()
        assert "…" not in sys.stderr.getvalue()
