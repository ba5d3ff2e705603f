import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from strop.engine import Failure, Local


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone_within(pid, seconds):
    end = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not alive(pid)


def test_every_config_comes_back_with_its_result():
    import jobs

    assert dict(Local(workers=2).map(jobs.square, range(20))) == {x: x * x for x in range(20)}
    assert list(Local(workers=2).map(jobs.square, [])) == []


def test_results_come_as_they_end(tmp_path):
    import jobs

    path = str(tmp_path / "signal")
    ended = Local(workers=2).map(jobs.wait_or_touch, [("wait", path), ("touch", path)])
    assert [what for (what, _), _ in ended] == ["touch", "wait"]


def test_failures_take_the_place_of_results_and_spare_the_rest():
    import jobs

    moods = ["raise", "segfault", "good", "interrupted", "exit", "sys.exit", "unpicklable", "fine", "ok"]
    found = dict(Local(workers=2).map(jobs.by_mood, moods))
    assert {mood for mood in moods if not isinstance(found[mood], Failure)} == {"good", "interrupted", "fine", "ok"}
    assert str(found["raise"]) == "ValueError: bad mood"
    assert "by_mood" in found["raise"].traceback
    assert str(found["segfault"]) == "WorkerDied: the worker process was ended by SIGSEGV"
    assert str(found["exit"]) == "WorkerDied: the worker process left with exit code 7"
    assert str(found["sys.exit"]) == "SystemExit: enough"
    assert "pickle" in found["unpicklable"].message


def test_workers_are_kept_and_their_number_is_respected():
    import jobs

    assert len({pid for _, pid in Local(workers=2).map(jobs.process, range(12))}) == 2


def test_torch_gets_the_threads_asked_for():
    import jobs

    assert [n for _, n in Local(workers=1).map(jobs.torch_threads, [0])] == [1]


def test_closing_the_iterator_ends_the_workers():
    import jobs

    results = Local(workers=1).map(jobs.process, range(3))
    _, pid = next(results)
    assert alive(pid)
    results.close()
    assert not alive(pid)


CODE = """
import sys
from strop.engine import Local
import jobs
if __name__ == "__main__":
    try:
        list(Local(workers=2).map(jobs.mark_and_sleep, sys.argv[1:]))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_worker_outlives_its_parent(tmp_path, signum):
    script, marks = tmp_path / "main.py", [tmp_path / "a", tmp_path / "b"]
    script.write_text(CODE)
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    parent = subprocess.Popen(
        [sys.executable, str(script), *map(str, marks)],
        env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True, text=True,
    )  # fmt: skip
    while not all(mark.exists() and mark.read_text() for mark in marks):
        assert parent.poll() is None
        time.sleep(0.02)
    workers = [int(mark.read_text()) for mark in marks]
    begun = time.monotonic()
    if signum == signal.SIGINT:
        os.killpg(parent.pid, signum)  # as a terminal does: the workers get it too
    else:
        parent.send_signal(signum)
    out, told = parent.communicate(timeout=10)
    assert "Traceback" not in told
    assert all(gone_within(pid, 3) for pid in workers)
    assert time.monotonic() - begun < 3
    assert ("interrupted" in out) == (signum == signal.SIGINT)


def test_what_cannot_cross_processes_is_told(tmp_path):
    with pytest.raises(ValueError, match=r"function must be importable from a module, got <function .*lambda"):
        list(Local(workers=1).map(lambda x: x, [1]))
    for wrong in ({"workers": 0}, {"threads": -1}):
        with pytest.raises(ValueError, match="must be at least 1, got"):
            Local(**wrong)
