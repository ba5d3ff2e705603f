"""Arenas that lose a worker, or everything, half-way; and the same list on Ray."""

import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from strop.engine import Serial
from strop.studies.arena import Arena, Shape, read_arena, run_arena

LIST = {
    "tasks": ("average", "max_retrieval"),
    "entries": ("softmax", "adaptive"),
    "seeds": 2,
    "rates": (1e-3,),
    "steps": 200,
    "sizes": (4, 20),
    "problems": 16,
}
ARENA = Arena(**LIST, shape=Shape())
COMMAND = [
    *(sys.executable, "-c", "from strop.cli.group import strop; strop()", "arena"),
    *(
        "--tasks",
        "average,max_retrieval",
        "--normalisers",
        "softmax,adaptive",
        "--seeds",
        "2",
        "--rates",
        "0.001",
    ),
    *("--steps", "200", "--sizes", "4,20", "--problems", "16", "--out"),
]
MODELS = 8


def told(root):
    return [
        {key: value for key, value in row.items() if "seconds" not in key} for row in read_arena(ARENA, root).records
    ]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    root = tmp_path_factory.mktemp("undisturbed")
    assert run_arena(ARENA, root, Serial()).failures == {}
    return told(root)


def started(root, workers=2):
    command = [*COMMAND, str(root), "--workers", str(workers)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finished(root):
    return {path: path.stat().st_mtime_ns for path in root.rglob("done.json")}


def wait_for(what, seconds=60.0):
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "nothing came"
        time.sleep(0.02)
    return found


def completed(root, undisturbed, kept):
    assert kept
    assert run_arena(ARENA, root, Serial()).failures == {}
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())  # nothing ran twice
    assert told(root) == undisturbed


def test_a_killed_arena_continues(tmp_path, undisturbed):
    arena = started(tmp_path)
    wait_for(lambda: finished(tmp_path))
    arena.send_signal(signal.SIGKILL)
    arena.communicate()
    kept = finished(tmp_path)
    completed(tmp_path, undisturbed, kept)
    assert len(kept) < len(finished(tmp_path))


def test_an_arena_that_loses_a_worker_tells_it_and_keeps_the_rest(tmp_path, undisturbed):
    arena = started(tmp_path)
    wait_for(lambda: finished(tmp_path))
    time.sleep(0.5)  # the worker that has just finished is at the next model: an idle one would not be missed
    workers = [p for p in psutil.Process(arena.pid).children() if "spawn_main" in " ".join(p.cmdline())]
    workers[0].kill()
    output, _ = arena.communicate(timeout=120)
    assert arena.returncode == 1, output
    assert "WorkerDied: the worker process was ended by SIGKILL" in output
    (note,) = tmp_path.rglob("failed.json")  # so that --show tells it, too
    assert "ended by SIGKILL" in note.read_text()
    completed(tmp_path, undisturbed, finished(tmp_path))


def test_two_arenas_in_processes_of_their_own_may_share_a_folder(tmp_path, undisturbed):
    both = [started(tmp_path, workers=1) for _ in range(2)]
    for arena in both:
        output, _ = arena.communicate(timeout=240)
        assert arena.returncode == 0, output
        assert f"{MODELS} of {MODELS} models tested." in output
    assert told(tmp_path) == undisturbed


@pytest.mark.filterwarnings("default")  # Ray's own
def test_ray_gives_what_this_machine_gives_though_a_worker_dies(tmp_path, undisturbed):
    pytest.importorskip("ray", reason="needs the extra `ray`")
    from strop.engine.cluster import Ray

    killed = []
    threading.Thread(target=lambda: killed.append(kill_a_ray_worker(tmp_path)), daemon=True).start()
    assert run_arena(ARENA, tmp_path, Ray()).failures == {}
    assert killed
    assert told(tmp_path) == undisturbed


def kill_a_ray_worker(root):
    """Kill one process that runs an attempt, once something is finished."""
    wait_for(lambda: finished(root))

    def at_work():
        ours = psutil.Process(os.getpid()).children(recursive=True)
        return [p for p in ours if p.name().startswith("ray::attempt")]

    worker = wait_for(at_work)[0]
    worker.kill()
    return worker.pid
