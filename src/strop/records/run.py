"""Where records live: finished runs are never run again, unfinished ones never counted.

    runs/index.jsonl                   a line for every finished run: when, which experiment, which folder
    runs/latest                        a link to the folder of the run that finished last
    runs/<experiment>/                 report.html, leaderboards … of all its runs
    runs/<experiment>/<address>/       one run, named by the content address of its config
        config.json                    the config, canonical JSON
        records.jsonl                  what it found
        done.json                      written last: provenance, number of records, checksum of the two above
        failed.json                    why the last attempt ended badly, until one ends well
        …                              checkpoints and whatever else the run keeps for resuming

A run is finished when done.json is there; its records are read only if the checksums agree. Whoever works on a run
holds its claim, so that two experiments may share a folder: the lock goes with the process that held it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from strop.errors import DamagedFileError, RecordsError
from strop.records import files
from strop.records.addresses import canonical, short_id
from strop.records.errors import explain_failures
from strop.records.files import Record
from strop.records.origin import provenance

FORMAT = 1


@dataclass(frozen=True)
class Run:
    """The folder of one run. Making the object touches no disk."""

    folder: Path

    @classmethod
    def of(cls, config: object, experiment: str, root: str | Path = "runs") -> Run:
        """Return the folder that belongs to this config."""
        return cls(Path(root) / experiment / short_id(config))

    @property
    def finished(self) -> bool:
        """Whether the run has ended well."""
        return (self.folder / "done.json").exists()

    def begin(self, config: object) -> None:
        """Make the folder and write the config. Does nothing to a run already begun."""
        path, text = self.folder / "config.json", canonical(config) + "\n"
        if path.exists() and _bytes(path) == text.encode():
            return
        files.write_text(path, text)

    def finish(self, config: object, records: Iterable[Record]) -> None:
        """Write the records, then the mark that says they are complete."""
        self.begin(config)
        rows = list(records)
        files.write(self.folder / "records.jsonl", rows)
        done = {
            "format": FORMAT,
            "records": len(rows),
            "sha256": self._checksum(),
            "provenance": provenance(),
        }
        files.write_text(self.folder / "done.json", json.dumps(done, indent=1) + "\n")
        (self.folder / "failed.json").unlink(missing_ok=True)
        self._enter_index()

    def _enter_index(self) -> None:
        root, place = self.folder.parent.parent, f"{self.folder.parent.name}/{self.folder.name}"
        finished = datetime.now(UTC).isoformat(timespec="seconds")
        files.append(
            root / "index.jsonl", [{"finished": finished, "experiment": self.folder.parent.name, "run": place}]
        )
        with suppress(OSError):  # a convenience: some file systems have no links
            link = root / f".latest.{self.folder.name}"
            link.unlink(missing_ok=True)
            link.symlink_to(place)
            link.replace(root / "latest")

    @contextmanager
    def work_on(self, config: object) -> Iterator[None]:
        """Hold the run against other processes, and begin it."""
        with self.claim():
            self.begin(config)
            yield

    @contextmanager
    def claim(self, *, wait: bool = True) -> Iterator[bool]:
        """Hold the run against other processes; False when another holds it and we do not `wait`."""
        import fcntl  # POSIX only

        path = self.folder / ".claim"
        with explain_failures(path):
            self.folder.mkdir(parents=True, exist_ok=True)
            file = open(path, "ab")  # noqa: SIM115  # closed below, which gives the claim back
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
            else:
                yield True

    def fail(self, reason: str) -> None:
        """Note why an attempt ended badly; the run stays unfinished."""
        files.write_text(self.folder / "failed.json", json.dumps({"reason": reason}) + "\n")

    @property
    def failure(self) -> str | None:
        """Why the last attempt ended badly, if it did."""
        path = self.folder / "failed.json"
        try:
            return str(json.loads(_bytes(path))["reason"]) if path.exists() else None
        except (ValueError, KeyError, TypeError):
            return "the note of its failure is damaged"

    def records(self) -> list[Record]:
        """Return the records of a finished run, or raise when anything is missing or changed."""
        done = self.done()
        if done["sha256"] != self._checksum():
            raise DamagedFileError(
                f"{self.folder} must hold what was written, got a changed file. Delete it and run again."
            )
        return files.read(self.folder / "records.jsonl")

    def done(self) -> dict[str, object]:
        """Return the content of done.json: format, records, sha256, provenance."""
        path = self.folder / "done.json"
        try:
            done = json.loads(_bytes(path))
            number = done["format"]
            done["sha256"], done["provenance"]
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedFileError(
                f"{path} must be a finished run's mark, got damaged text. Delete the folder and run again."
            ) from error
        if number != FORMAT:
            raise RecordsError(
                f"{path} must have format {FORMAT}, got {number!r}: another version of strop wrote it. "
                "Use that version, or another results folder."
            )
        return dict(done)

    def config(self) -> dict[str, object]:
        """Return the stored config as plain values."""
        try:
            return dict(json.loads(_bytes(self.folder / "config.json")))
        except (ValueError, TypeError) as error:
            raise DamagedFileError(
                f"{self.folder}/config.json must be JSON, got damaged text. Delete the folder."
            ) from error

    def _checksum(self) -> str:
        parts = (_bytes(self.folder / name) for name in ("config.json", "records.jsonl"))
        return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def runs(experiment: str, root: str | Path = "runs") -> list[Run]:
    """Return every finished run of an experiment, in the order of their addresses."""
    folder = Path(root) / experiment
    return [run for run in map(Run, sorted(folder.glob("*/"))) if run.finished]


def _bytes(path: Path) -> bytes:
    with explain_failures(path):
        return path.read_bytes()
