import errno
import fcntl
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop import records

plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
rows = st.lists(st.dictionaries(st.text(), plain))


@given(rows)
def test_every_record_reads_back_as_written_or_is_refused(tmp_path_factory, table):
    path = tmp_path_factory.mktemp("r") / "records.jsonl"
    if any(value in ("NaN", "Infinity", "-Infinity") for row in table for value in row.values()):
        with pytest.raises(records.RecordsError, match="number's name"):
            records.write(path, table)
        return
    records.write(path, table)
    assert repr(records.read(path)) == repr(table)  # repr: nan equals nan, 1 differs from 1.0 and from True


def test_lines_are_strict_json(tmp_path):
    path = tmp_path / "r.jsonl"
    records.write(path, [{"a": math.inf, "b": math.nan, "c": "Ω"}])

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    assert json.loads(path.read_text(), parse_constant=refuse) == {"a": "Infinity", "b": "NaN", "c": "Ω"}


@pytest.mark.parametrize("value", [[1], {"a": 1}, object(), b"x"])
def test_a_record_is_flat(tmp_path, value):
    with pytest.raises(records.RecordsError, match=r"record\['loss'\] must be str, int, float, bool or None"):
        records.write(tmp_path / "r.jsonl", [{"loss": value}])
    assert not (tmp_path / "r.jsonl").exists()


def test_a_torn_last_line_is_refused_or_dropped_and_never_read(tmp_path):
    path = tmp_path / "r.jsonl"
    records.write(path, [{"n": 16}, {"n": 32}])
    whole = path.read_bytes()
    for cut in range(1, len(b'{"n": 32}\n')):
        path.write_bytes(whole[:-cut])
        with pytest.raises(records.DamagedFileError, match="torn line 2"):
            records.read(path)
        assert records.read(path, torn="drop") == [{"n": 16}]


def test_append_cuts_a_torn_line_away_first(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_bytes(b'{"n": 16}\n{"n": 3')
    records.append(path, [{"n": 64}])
    assert records.read(path) == [{"n": 16}, {"n": 64}]


def test_append_finds_the_last_line_behind_a_long_torn_one(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_bytes(b'{"n": 16}\n' * 10_000 + b'{"text": "' + b"x" * 200_000)
    records.append(path, [{"n": 64}])
    assert records.read(path) == [{"n": 16}] * 10_000 + [{"n": 64}]


@pytest.mark.parametrize("line", [b"{", b"[1]", b'{"a": [1]}', b"\xff\xfe", b""])
def test_a_damaged_line_is_named(tmp_path, line):
    path = tmp_path / "r.jsonl"
    path.write_bytes(b'{"n": 16}\n' + line + b'\n{"n": 64}\n')
    with pytest.raises(records.DamagedFileError, match="line 2 must be"):
        records.read(path, torn="drop")


def test_two_processes_share_a_file(tmp_path):
    path = tmp_path / "r.jsonl"
    code = (
        "import sys; from strop import records\n"
        "for i in range(50): records.append(sys.argv[1], [{'mark': sys.argv[2], 'i': i, 'text': 'x' * 300}])"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(path), mark]) for mark in "ab"]
    assert [writer.wait() for writer in writers] == [0, 0]
    found = records.read(path)
    for mark in "ab":
        assert [row["i"] for row in found if row["mark"] == mark] == list(range(50))


def test_append_waits_for_the_lock(tmp_path):
    path = tmp_path / "r.jsonl"
    code = "import sys; from strop import records; print(flush=True); records.append(sys.argv[1], [{'n': 16}])"
    with open(path, "wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        child = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
        child.stdout.readline()
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.3)
    child.communicate(timeout=10)
    assert records.read(path) == [{"n": 16}]


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    path = tmp_path / "r.jsonl"
    records.write(path, [{"n": 16}])

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(records.RecordsError, match="must fit on the disk, got: No space left"):
        records.write(path, [{"n": 32}])
    with pytest.raises(records.RecordsError, match="must fit on the disk"):
        records.append(path, [{"n": 32}])
    monkeypatch.undo()
    assert records.read(path) == [{"n": 16}]
    assert list(tmp_path.iterdir()) == [path]


def test_an_append_that_meets_a_real_limit_leaves_whole_lines_only(tmp_path):
    path = tmp_path / "r.jsonl"
    code = (
        "import resource, sys; from strop import records\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n"
        "    for i in range(100): records.append(sys.argv[1], [{'i': i, 'text': 'x' * 80}])\n"
        "except records.RecordsError as error: print(error)\n"
    )
    told = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert "must fit on the disk, got: File too large" in told.stdout
    assert [row["i"] for row in records.read(path)] == list(range(9))


def test_a_folder_that_cannot_be_made_is_told_plainly(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        records.RecordsError, match=r"file/r.jsonl must be readable and writable, got: .*Choose another"
    ):
        records.write(tmp_path / "file" / "r.jsonl", [])
    with pytest.raises(records.RecordsError, match="must be a file, got a folder"):
        records.append(tmp_path, [])
    with pytest.raises(records.RecordsError, match="must exist"):
        records.read(tmp_path / "nothing.jsonl")


def test_atomic_path_replaces_on_success_only(tmp_path):
    path = tmp_path / "deep" / "w.bin"
    with records.atomic_path(path) as temporary:
        temporary.write_bytes(b"new")
        assert not path.exists()
    assert path.read_bytes() == b"new"

    def torn():
        with records.atomic_path(path) as temporary:
            temporary.write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        torn()
    assert path.read_bytes() == b"new"
    assert list(path.parent.iterdir()) == [path]


def test_an_error_of_the_writer_itself_stays_what_it_was(tmp_path):
    with pytest.raises(FileNotFoundError), records.atomic_path(tmp_path / "w.bin"):
        Path("/no/such/input").read_bytes()


def test_written_files_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        records.write_text(tmp_path / "report.html", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "report.html").stat().st_mode & 0o777 == 0o640


def test_csv_keeps_columns_and_simple_types(tmp_path):
    path = tmp_path / "r.csv"
    table = [{"n": 16, "rule": 'a,"b"\nc'}, {"n": 32, "p": 0.25, "ok": True, "rule": None}]
    records.write_csv(path, table)
    assert path.read_text().splitlines()[0] == "n,rule,p,ok"
    assert records.read_csv(path) == [
        {"n": 16, "rule": 'a,"b"\nc', "p": None, "ok": None},
        {"n": 32, "rule": None, "p": 0.25, "ok": True},
    ]
    path.write_text("a,b\n1\n")
    with pytest.raises(records.DamagedFileError, match="row 2 must have 2 cells, got 1"):
        records.read_csv(path)


def test_finite_reaches_into_lists_and_dicts():
    assert records.finite({"a": [1.5, math.nan, (math.inf,)]}) == {"a": [1.5, None, [None]]}


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_files_have_ordinary_permissions_whoever_writes_them(tmp_path, mask, mode):
    def private(path):  # as safetensors does
        path.unlink()
        path.write_bytes(b"x")
        path.chmod(0o600)

    before = os.umask(mask)
    try:
        with records.atomic_path(tmp_path / "edge") as temporary:
            private(temporary)
    finally:
        os.umask(before)
    assert (tmp_path / "edge").stat().st_mode & 0o777 == mode
