"""How far runs in other processes are: each writes a number into a small file, the parent adds them up.

A number that is torn or missing counts as its last known value; nothing but a progress bar depends on it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

METER_FOLDER = ".progress"


@dataclass
class Meter:
    """The worker's side."""

    path: Path
    done: int = 0
    _last: float = field(default=0.0, repr=False)

    @classmethod
    def of(cls, root: str | Path, name: str) -> Meter:
        """Return the meter of a run under this root."""
        return cls(Path(root) / METER_FOLDER / name)

    def note(self, done: int) -> None:
        """Say how much is done."""
        self.done = done
        with suppress(OSError):  # a bar that stands still must not stop the work
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(str(done))

    def counter(self, unit: int) -> Callable[[int], None]:
        """Return a function that adds `unit` per set, writing at most a few times a second."""

        def add(sets: int) -> None:
            self.done += unit * sets
            if time.monotonic() - self._last > 0.3:
                self._last = time.monotonic()
                self.note(self.done)

        return add


@contextmanager
def watch_meters(root: str | Path, names: list[str], show: Callable[[float], None]) -> Iterator[None]:
    """The parent's side: call show(total done) a few times a second while the block runs."""
    paths = [Path(root) / METER_FOLDER / name for name in names]
    for path in paths:
        path.unlink(missing_ok=True)
    stop = threading.Event()

    def poll() -> None:
        known = dict.fromkeys(paths, 0)
        while not stop.wait(0.3):
            for path in paths:
                with suppress(OSError, ValueError):
                    known[path] = int(path.read_text())
            show(sum(known.values()))

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
