"""A worker process checks one model type after another; one that takes too long or dies costs its type and is replaced.

Results are written one a line as they come. A sweep that was killed goes on where it stopped, unless strop or the
sweep itself has changed since.
"""

from __future__ import annotations

import hashlib
import json
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sweep.columns import COLUMNS

SECONDS, GIGABYTES = 120, 6
"""Processor time and memory that one model type may take."""

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "families.jsonl"
SOURCES = ("src/strop/patching", "src/strop/kernels", "src/strop/normalisers", "tools/sweep")


class Worker:
    """One process, started when first needed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def ask(self, model_type: str) -> dict[str, Any]:
        """The row of a model type, or one that says why there is none."""
        process = self._process = self._process or _start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(model_type + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if line:
            return dict(json.loads(line))
        self._process = None
        return _lost(model_type, process.wait())

    def end(self) -> None:
        """Stop the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def sweep(model_types: Sequence[str], workers: int) -> Iterator[dict[str, Any]]:
    """Yield each type's row: kept ones at once, the others as they are made."""
    kept = {row["model_type"]: row for row in read_kept()}
    yield from (kept[name] for name in model_types if name in kept)
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    missing = [name for name in model_types if name not in kept]
    for name in missing:
        waiting.put(name)
    done: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    for _ in range(min(workers, len(missing))):
        threading.Thread(target=_work, args=(waiting, done), daemon=True).start()
    with KEPT.open("a") as file:
        for _ in missing:
            row = done.get()
            print(json.dumps(row), file=file, flush=True)
            yield row


def read_kept() -> list[dict[str, Any]]:
    """Rows of an earlier sweep by the same sources; a file of other sources is begun anew."""
    KEPT.parent.mkdir(exist_ok=True)
    lines = KEPT.read_text().splitlines() if KEPT.exists() else []
    if not lines or json.loads(lines[0]) != {"sources": digest()}:
        KEPT.write_text(json.dumps({"sources": digest()}) + "\n")
        return []
    whole = [line for line in lines[1:] if line.endswith("}")]  # a kill may have torn the last one
    KEPT.write_text("\n".join([lines[0], *whole]) + "\n")
    return [json.loads(line) for line in whole]


def digest() -> str:
    """Twelve digits of everything that decides a row."""
    files = [file for name in SOURCES for file in sorted((ROOT / name).rglob("*.py"))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def serve() -> None:
    """What a worker does: a model type in, a row out."""
    import resource
    import warnings

    import torch
    import transformers

    from sweep.check import check

    resource.setrlimit(resource.RLIMIT_DATA, (GIGABYTES << 30, GIGABYTES << 30))
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    answers, sys.stdout = sys.stdout, sys.stderr  # what models print is not an answer
    for line in sys.stdin:
        start = time.process_time()
        resource.setrlimit(resource.RLIMIT_CPU, (int(start) + SECONDS, resource.RLIM_INFINITY))
        row = check(line.strip()).record()
        print(json.dumps(row | {"seconds": round(time.process_time() - start, 2)}), file=answers, flush=True)


def _work(waiting: queue.SimpleQueue[str], done: queue.SimpleQueue[dict[str, Any]]) -> None:
    worker = Worker()
    while not waiting.empty():
        done.put(worker.ask(waiting.get()))
    worker.end()


def _start() -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "sweep", "--serve"]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def _lost(model_type: str, code: int) -> dict[str, Any]:
    why = f"more than {SECONDS} s" if code == -signal.SIGXCPU else f"the process died with {code}"
    lost = {"word": "not runnable", "detail": why, "apart": 0.0}
    return {"model_type": model_type, "model_class": "", "reads": "", "attention": 0, "left": [],
            "columns": dict.fromkeys(COLUMNS, lost), "seconds": SECONDS}  # fmt: skip
