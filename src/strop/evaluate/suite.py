"""A suite: which prompts, prose and lengths a model is measured on, and one model's measurement of it, kept on disk.

A measurement is named by the suite, the model and what was done to it, so that it is never made twice: the untouched
model is measured once for any number of edges. Everything comes from the test split, which calibration never sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch import nn

from strop._checks import require, require_distinct
from strop.evaluate.language import Tick, answer, compared, compared_prose, read_prose, speed
from strop.records import Record, Run
from strop.tasks.answers import Reader
from strop.tasks.catalogue import drawn, own, task_named
from strop.tasks.passages import Passage, read_jsonl, seen
from strop.tasks.prose import checksum, prose, windows


@dataclass(frozen=True)
class Suite:
    """What to measure. `questions` share a passage, so that 200 prompts are 25 passages of eight questions.

    `held` takes of a user's own prompts only the fifth that calibration keeps for its test.
    """

    task: str = "recall"
    sizes: tuple[int, ...] = (4, 16, 32, 64)
    phrasings: tuple[str, ...] = ()
    prompts: int = 200
    questions: int = 8
    lengths: tuple[int, ...] = (256, 1024)
    windows: int = 8
    seed: int = 0
    data: str | None = None
    prose: str | None = None
    held: bool = False

    def __post_init__(self) -> None:
        for name in ("prompts", "questions", "windows"):
            require(getattr(self, name) >= 1, f"{name} must be at least 1", getattr(self, name))
        for name in ("sizes", "phrasings", "lengths"):
            require_distinct(name, getattr(self, name))

    def passages(self) -> list[Passage]:
        """Return the prompts: a user's own, or passages of the built-in task in the chosen or all test phrasings."""
        if self.data is not None:
            return own(self.data, self.seed)[2] if self.held else read_jsonl(Path(self.data))
        task = task_named(self.task)
        phrasings = self.phrasings or (seen(task)[0], *task.held_out)
        made: list[Passage] = []
        for size in self.sizes:
            for phrasing in phrasings:
                made += self._group(size, phrasing)
        return made

    def checksum(self) -> str:
        """Return a checksum of every prompt and of the prose, which a file's name alone does not settle."""
        return checksum(repr(self.passages()) + prose("test", self.prose))

    def _group(self, size: int, phrasing: str) -> list[Passage]:
        """Exactly `prompts` prompts, or a little more where they do not divide; all phrasings ask the same things."""
        one = len(drawn(self.task, "test", self.seed, (size,), (phrasing,), 1, self.questions)[0].questions)
        count = -(-self.prompts // one)
        return drawn(self.task, "test", self.seed, (size,), (phrasing,), count, self.questions)


@dataclass(frozen=True)
class Measured:
    """What one model did: a record per prompt, losses per length of prose, tokens a second."""

    answers: list[Record]
    prose: dict[int, list[float]]
    speed: float


@dataclass(frozen=True)
class Comparison:
    """Two measurements side by side."""

    answers: list[Record]
    prose: list[Record]
    speed: Record = field(default_factory=dict)


def measure(model: nn.Module, reader: Reader, suite: Suite, tick: Tick = lambda _: None) -> Measured:
    """Measure a model as it stands."""
    text = prose("test", suite.prose)
    texts = {n: windows(reader, text, n, suite.windows, apart=True) for n in suite.lengths}
    found = answer(model, reader, suite.passages(), suite.task if suite.data is None else Path(suite.data).name, tick)
    losses = {n: read_prose(model, text) for n, text in texts.items()}
    return Measured(found, losses, speed(model, texts[min(suite.lengths)][:1]))


def kept(
    run: Run, config: object, model: nn.Module, reader: Reader, suite: Suite, tick: Tick = lambda _: None
) -> Measured:
    """Measure, or read what was measured before under the same config."""
    if run.finished:
        return _measured(run.records())
    with run.claimed():  # another evaluation may be measuring the same untouched model: wait for it
        if run.finished:
            return _measured(run.records())
        found = measure(model, reader, suite, tick)
        rows: list[Record] = [{"kind": "answer", **row} for row in found.answers]
        rows += [{"kind": "prose", "tokens": n, "loss": loss} for n, losses in found.prose.items() for loss in losses]
        run.finish(config, [*rows, {"kind": "speed", "tokens_a_second": found.speed}])
    return found


def compare(before: Measured, after: Measured) -> Comparison:
    """Put two measurements of one suite side by side."""
    rows = [compared_prose(n, losses, after.prose[n]) for n, losses in before.prose.items()]
    return Comparison(compared(before.answers, after.answers), rows, {"before": before.speed, "after": after.speed})


def _measured(rows: Sequence[Record]) -> Measured:
    answers = [{key: value for key, value in row.items() if key != "kind"} for row in rows if row["kind"] == "answer"]
    losses: dict[int, list[float]] = {}
    for row in rows:
        if row["kind"] == "prose":
            losses.setdefault(int(str(row["tokens"])), []).append(float(str(row["loss"])))
    speeds = [float(str(row["tokens_a_second"])) for row in rows if row["kind"] == "speed"]
    return Measured(answers, losses, speeds[0])
