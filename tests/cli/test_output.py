import io
import json
import math
import sys

import pytest

from strop.cli import output
from strop.report.tables import Table


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("stream", "as_json", "shown"), [
    (io.StringIO(), False, False), (Terminal(), True, False), (Terminal(), False, True)
])  # fmt: skip
def test_bars_are_for_a_terminal_and_not_under_json(monkeypatch, stream, as_json, shown):
    monkeypatch.setattr(sys, "stderr", stream)
    assert output.bars(as_json) is shown


def test_a_table_in_a_pipe_is_never_cut(capsys):
    output.show(Table.of([{f"column {i}": "x" * 40 for i in range(8)}], [f"column {i}" for i in range(8)]))
    lines = capsys.readouterr().out.splitlines()
    assert any(line.count("x" * 40) == 8 for line in lines)
    assert all(line == line.rstrip() for line in lines)


def test_json_is_one_strict_document(capsys):
    output.records_json([{"p": math.inf}], verb="probe")
    assert json.loads(capsys.readouterr().out) == {"verb": "probe", "records": [{"p": None}]}
