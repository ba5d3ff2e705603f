"""`evaluate`: the same model before and after, on prompts that calibration never saw."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strop._checks import require
from strop.errors import StropWarning
from strop.evaluation.judging.bench import Bench
from strop.evaluation.suite import Suite
from strop.ranks import ranks_here
from strop.records import Record, Run, short_id

if TYPE_CHECKING:
    from torch import nn

    from strop.edges.edge import Edge
    from strop.evaluation.marks import Marks
    from strop.pretrained.load import Pretrained
    from strop.report.page import Page
    from strop.report.tables import Table
    from strop.tasks.answers import Reader
    from strop.tasks.passages import Passage
    from strop.tasks.prompts import Pairs, Prompts

OF_BUILT_IN = ("task", "sizes", "phrasings", "prompts", "questions")
"""Settings of a suite that mean nothing for a user's own prompts."""


@dataclass(frozen=True, repr=False)
class Comparison:
    """A model before and after.

    Attributes:
        model: What the model is called.
        edge: The edge that makes the difference.
        suite: Which prompts, prose and lengths.
        answers: A record for each task, phrasing and size: accuracies with intervals, likelihoods, p-values.
        prose: A record for each length of prose: losses, their change and its standard error.
        overall: The same as in `answers`, of all prompts together.
        folder: Where the measurement with the edge is kept; None where nothing is kept.
        by_size: Where sizes were not named, the same as in `answers` for every size, all phrasings together.

    Examples:
        >>> import strop
        >>> gain = strop.evaluate(model, tokenizer, edge, sizes=(2,), prompts=2, lengths=(32,), windows=2, runs=None)
        >>> gain.summary
        'Exact answers of 10 prompts: 0.0 % (0.0–27.8) → 0.0 % (0.0–27.8), not told apart ...'
    """

    model: str
    edge: Edge
    suite: Suite | Bench
    answers: list[Record]
    prose: list[Record]
    overall: Record
    folder: Path | None = None
    by_size: list[Record] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<Comparison of {self.model} before and after: {self.summary}>"

    @property
    def summary(self) -> str:
        """What the edge gained and cost: all answers together, the groups that differ, prose."""
        from strop.evaluation.verdict import write_verdict

        return write_verdict(self.overall, self.answers, self.prose, self.by_size)

    def table(self) -> Table:
        """Return accuracy before and after, for every task, phrasing and size."""
        from strop.evaluation.report import tabulate_answers

        return tabulate_answers(self.answers)

    def prose_table(self) -> Table:
        """Return the loss on prose before and after, by length."""
        from strop.evaluation.report import tabulate_prose

        return tabulate_prose(self.prose)

    def size_table(self) -> Table:
        """Return accuracy before and after by size, all phrasings together; for sizes that were not named."""
        from strop.evaluation.report import tabulate_sizes

        require(bool(self.by_size), "sizes must be left to evaluate for a table of them", self.suite)
        return tabulate_sizes(self.by_size)

    def more_tables(self) -> list[Table]:
        """Return what is shown after the answers."""
        return [self.prose_table()]

    def page(self) -> Page:
        """Return the report as a page that can be written or put into another."""
        from strop.evaluation.report import make_comparison_page

        assert isinstance(self.suite, Suite)
        unused = () if self.suite.data is None else OF_BUILT_IN
        given = {key: value for key, value in vars(self.suite).items() if value not in (None, ()) and key not in unused}
        settings: Record = {"model": self.model, "edge": self.edge.kind, **{k: str(v) for k, v in given.items()}}
        heads = self.edge.heads()
        return make_comparison_page(self.overall, self.answers, self.prose, heads, settings, self.by_size)

    def report(self, path: str | Path) -> Path:
        """Write the report, one HTML file that needs no network, and return where it is."""
        self.page().write(path)
        return Path(path)


def evaluate(
    model: nn.Module | str | Pretrained,
    tokenizer: Any = None,
    edge: Edge | str | Path | None = None,
    *,
    against: Edge | str | Path | None = None,
    suite: str | None = None,
    task: str | Path | Pairs | None = None,
    sizes: Sequence[int] | None = None,
    phrasings: Sequence[str] | None = None,
    prompts: int | None = None,
    questions: int = Suite.questions,
    lengths: Sequence[int] | None = None,
    windows: int = Suite.windows,
    prose: str | Path | None = None,
    beyond: bool = False,
    seed: int = Suite.seed,
    device: str = "auto",
    dtype: str = "auto",
    runs: str | Path | None = "runs",
    name: str | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Answer the same prompts and read the same prose with a model as it is and with an edge on it.

    Accuracy is exact answers with 95 % intervals; p-values are McNemar's over prompts and a sign-flip test over
    passages, which several prompts share. Measurements are kept: the untouched model is measured once.

    Args:
        model: A language model with its head; or the name of one: smollm2, gemma3-270m, a folder, a hub name.
        tokenizer: Its tokeniser; left out for a model by name.
        edge: The edge, or where it is: a file, a folder or a hub name.
        against: Another edge to compare with. None: the untouched model.
        suite: A benchmark that nobody here wrote, by lm-evaluation-harness, instead of a task: ruler, or lm-eval:TASK
            for any of its tasks. Returns a Judgement.
        task: recall, lookup, lookup-similar, lookup-nouns, maximum, passkey, variables, chains or counting; a JSONL
            file of your own prompts; or a list of pairs (prompt, answer). Prompts that the edge was calibrated on are
            measured on the fifth kept for testing. None: the task that the edge was calibrated on, or recall.
        sizes: Sizes of the task. None: 1, 2, 4, 8 and 20 times the largest that the edge was calibrated on, or at which
            the model begins to fail, within its context; of larger ones fewer passages with more questions.
        phrasings: Phrasings of a built-in task. None: one that calibration uses, and all held-out ones.
        prompts: Prompts for each size and phrasing, or documents for each task and length of a suite. None: 200, or 50.
        questions: Prompts that share a passage.
        lengths: Tokens of prose, or of a suite's documents. None: 256 and 1,024, or RULER's 1,024 to 8,192.
        windows: Texts of prose of each length.
        prose: UTF-8 text to read. None: Python's own documentation.
        beyond: Read prose of lengths beyond the positions that the model was built for, with a warning.
        seed: Seed of all randomness.
        device: Where to open a model by name: cpu, cuda, cuda:1, mps, …; auto is a card where there is one, spread is
            over all cards, then memory, then disk. A model that is no name stays where it is.
        dtype: Of a model by name: float32, bfloat16, float16; auto is float32 on the CPU, elsewhere as it was saved.
        runs: Folder in which measurements are kept, so that none is made twice. None: keep nothing.
        name: What to call the model. None: as it calls itself.
        progress: Show a bar. None: on a terminal and in a notebook.

    Returns:
        The comparison, with `.summary`, `.table()`, `.prose_table()` and `.report(path)`.

    Examples:
        >>> import strop
        >>> gain = strop.evaluate(model, tokenizer, edge, sizes=(2,), prompts=4, lengths=(32,), windows=2, runs=None)
        >>> [row["phrasing"] for row in gain.answers]
        ['code', 'room', 'price', 'python', 'dial']
    """
    from strop.calibration.verb import read_prompts
    from strop.evaluation.growth import grow, name_task

    edges = [_read_edge(one) for one in (against, edge)]
    require(edges[1] is not None, "edge must be given", "none", "Make one with strop.calibrate")
    from strop.pretrained.load import open_model

    if suite is not None:
        require(task is None, "task must be left out with a suite", task)
        bench = Bench.of(suite, lengths, prompts, seed)  # a wrong name is told before the model is opened
        from strop.evaluation.judging.verb import judge_model

        return judge_model(
            open_model(model, tokenizer, name, progress, device, dtype), edges, bench, beyond, runs, progress
        )
    assert edges[1] is not None
    named = name_task(edges[1]) if task is None else task
    own = read_prompts(named)
    wanted = Suite(
        "recall" if own is not None else str(named), Suite.sizes if sizes is None else tuple(sizes),
        tuple(phrasings or ()),
        Suite.prompts if prompts is None else prompts, questions, Suite.lengths if lengths is None else tuple(lengths),
        windows, seed, None if own is None else own.name, None if prose is None else str(prose),
    )  # fmt: skip
    wanted = _leave_out_learned(wanted, own, [one for one in edges if one is not None])
    wanted.checksum(own)  # a wrong task, size or prose is told before the model is opened
    from strop.patching.placement import device_of
    from strop.tasks.answers import Reader
    from strop.tasks.prose import fit_lengths

    progress = progress if ranks_here().leads else False
    opened = open_model(model, tokenizer, name, progress, device, dtype)
    wanted = replace(wanted, lengths=fit_lengths(wanted.lengths, opened.model, beyond))
    reader = Reader(opened.tokenizer, device_of(opened.model))
    if sizes is None and own is None:
        edges[1].check(opened.model)
        wanted = grow(wanted, edges[1], opened.model, reader, progress)
    return _compare(opened.name, opened.model, reader, edges, wanted, own, runs, progress)


def _read_edge(edge: Edge | str | Path | None) -> Edge | None:
    from strop.edges.edge import Edge

    return Edge.from_pretrained(edge) if isinstance(edge, str | Path) else edge


def _leave_out_learned(suite: Suite, own: Prompts | None, edges: Sequence[Edge]) -> Suite:
    """The suite without the prompts that edges were calibrated on: of its own prompts a fifth was kept for testing."""
    recipes: list[Mapping[str, Any]] = [edge.made.get("recipe") or {} for edge in edges]
    recipes = [recipe for recipe in recipes if recipe.get("data") is not None]
    if own is None or not recipes:
        return suite
    seeds = {recipe["seed"] for recipe in recipes if recipe.get("prompts") == own.checksum}
    remedy = "Give other prompts"
    require(len(seeds) < 2, "both edges must keep the same fifth of these prompts for testing", "two seeds", remedy)
    for recipe in recipes:
        if recipe.get("prompts") != own.checksum:
            _warn(f"An edge was calibrated on prompts of {recipe['data']}: any of those here would flatter it.")
    if not seeds:
        return suite
    _warn("An edge was calibrated on these prompts: they are measured on the fifth kept for testing.")
    return replace(suite, held=True, seed=seeds.pop())


def _compare(
    name: str, model: nn.Module, reader: Reader, edges: Sequence[Edge | None], suite: Suite, own: Prompts | None,
    runs: str | Path | None, progress: bool | None,
) -> Comparison:  # fmt: skip
    """Measure without the edge (or with another) and with it, or read what was measured."""
    from strop._progress import show_progress
    from strop.evaluation.answers import compare_sizes
    from strop.evaluation.growth import GrowingSuite
    from strop.evaluation.marks import compare_marks, mark_model, mark_once
    from strop.patching.freeze import freeze
    from strop.patching.identity import dtype_of, fingerprint

    for one in edges:
        if one is not None:
            one.check(model)  # before minutes are spent on the untouched model
    checksum = suite.checksum(own)
    common = {"suite": suite, "prompts": checksum, "model": fingerprint(model), "dtype": dtype_of(model)}
    ranks_here().agree("model, edge and prompts", short_id([common, *(one and one.digest for one in edges)]))
    passages = suite.passages(own)
    count = 2 * sum(len(passage.questions) for passage in passages)
    marks: list[Marks] = []
    configs = [common | {"edge": None if one is None else one.digest} for one in edges]
    kept = [None if runs is None else Run.of(config, "evaluate", runs) for config in configs]
    folder = None if kept[1] is None else kept[1].folder
    with freeze(model), show_progress("answering", count, progress) as bar:
        _announce(model, reader, passages, sum(run is None or not run.finished for run in kept))
        for one, config, run in zip(edges, configs, kept, strict=True):
            with nullcontext() if one is None else one.put_on(model):
                if run is None:
                    marks.append(mark_model(model, reader, suite, own, bar.advance))
                    continue
                marks.append(mark_once(run, config, lambda: mark_model(model, reader, suite, own, bar.advance)))
    edge = edges[1]
    assert edge is not None
    by_size = compare_sizes(*(one.answers for one in marks)) if isinstance(suite, GrowingSuite) else []
    return Comparison(name, edge, suite, *compare_marks(*marks), folder, by_size)


def _announce(model: nn.Module, reader: Reader, passages: Sequence[Passage], times: int) -> None:
    """Say how long it will take, before it begins."""
    from strop.evaluation.timing import WORTH_SAYING, estimate_answers
    from strop.report.format import duration

    if not times or not ranks_here().leads:
        return
    seconds = times * estimate_answers(model, [reader.encode(passage) for passage in passages]) / ranks_here().size
    if seconds > WORTH_SAYING:
        sizes = sorted({passage.size for passage in passages} - {0})
        asked = f"{sum(len(passage.questions) for passage in passages):,} prompts in {len(passages):,} passages"
        of = f" of sizes {', '.join(map(str, sizes))}" if sizes else ""
        _warn(f"{asked}{of} are to be answered{' twice' if times > 1 else ''}: about {duration(seconds)}.")


def _warn(words: str) -> None:
    warnings.warn(words, StropWarning, stacklevel=4)
