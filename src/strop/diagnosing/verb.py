"""`diagnose`: what fails as inputs grow, and can a temperature mend it?

Every task is asked at growing sizes until answers fail (sizes.py); while the model answers, every head is measured at
the answers' rows (trace.py). The heads that carry answers are found and tried (carriers.py), and each wrong answer gets
a cause by what they do with the evidence (causes.py). One step of temperatures is tried (trial.py). What was read of
each size is kept in the run's folder, so that an interrupted diagnosis goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strop.diagnosing.plan import DIAGNOSED, Questioning, check_evidence, check_plan
from strop.records import Record, Run

if TYPE_CHECKING:
    from torch import nn

    from strop.pretrained.load import Pretrained
    from strop.report.page import Page
    from strop.report.tables import Table
    from strop.tasks.prompts import Pairs, Prompts


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """What a diagnosis found.

    Attributes:
        model: What the model is called.
        causes: A record for each task and size: exact answers with their interval, and wrong ones by cause.
        heads: A record for each head: its role, retrieval score, weight on the evidence, cost and gain.
        answers: A record for each question: whether it is exact and, where it is not, the cause.
        checks: A record for each task that fails: wrong answers tried with all carriers sharpened, and those mended.
        trials: A record for each task that fails: what one step of temperatures mends and breaks among prompts that it
            was not made from.
        symptoms: A record for each symptom, task and size: its mean over all heads and over those that carry answers.
        advice: What to do next, and the command for it.
        settings: What was asked.
        folder: Where the records are kept; None where nothing is kept.

    Examples:
        >>> import strop
        >>> found = strop.diagnose(model, tokenizer, task="recall", prompts=4, longest=150, runs=None)
        >>> [(row["task"], row["size"], row["wrong"]) for row in found.causes]
        [('recall', 4, 4)]
    """

    model: str
    causes: list[Record]
    heads: list[Record]
    answers: list[Record]
    checks: list[Record]
    trials: list[Record]
    symptoms: list[Record]
    advice: tuple[str, str]
    settings: Record
    folder: Path | None = None

    def __repr__(self) -> str:
        return f"<Diagnosis of {self.model}: {self.summary}>"

    @property
    def verdict(self) -> str:
        """What fails as inputs grow, and whether a temperature can mend it, with the numbers."""
        from strop.diagnosing.verdict import write_diagnosis

        return write_diagnosis(self.model, self.causes, self.trials)

    @property
    def cause(self) -> str | None:
        """The cause of most wrong answers: dispersion, order, sink, collapse, elsewhere, unknown; None: no failure."""
        from strop.diagnosing.verdict import name_cause

        return name_cause(self.causes)

    @property
    def summary(self) -> str:
        """Where each task fails, or how far it was tried."""
        from strop.diagnosing.verdict import write_summary

        return write_summary(self.causes)

    def table(self) -> Table:
        """Return exact answers and causes, for every task and size."""
        from strop.diagnosing.report import tabulate_causes

        return tabulate_causes(self.causes)

    def heads_table(self, count: int = 12) -> Table:
        """Return the heads that matter most as a table."""
        from strop.diagnosing.report import tabulate_roles

        return tabulate_roles(self.heads, count)

    def symptoms_table(self) -> Table:
        """Return every symptom at the smallest and the largest input, with its paper."""
        from strop.diagnosing.report import tabulate_symptoms

        return tabulate_symptoms(self.symptoms)

    def page(self) -> Page:
        """Return the report as a page that can be written or put into another."""
        from strop.diagnosing.report import make_diagnosis_page

        return make_diagnosis_page(self)

    def report(self, path: str | Path) -> Path:
        """Write the report, one HTML file that needs no network, and return where it is."""
        self.page().write(path)
        return Path(path)


def diagnose(
    model: nn.Module | str | Pretrained,
    tokenizer: Any = None,
    task: str | Path | Sequence[str] | Pairs | None = None,
    *,
    prompts: int = Questioning.prompts,
    questions: int = Questioning.questions,
    longest: int = Questioning.longest,
    more: int = Questioning.more,
    phrasings: Sequence[str] | None = None,
    seed: int = Questioning.seed,
    trial: bool = Questioning.trial,
    device: str = "auto",
    dtype: str = "auto",
    runs: str | Path | None = "runs",
    name: str | None = None,
    progress: bool | None = None,
    partial: bool = False,
) -> Diagnosis:
    """Find out what fails in a model as its inputs grow, and whether a temperature can mend it.

    Sizes are doubled until fewer than 95 % of the answers are exact. Each wrong answer then gets a cause, by what the
    heads that carry answers do with the evidence: they rank it first and give it too little weight (dispersion), rank
    something else first (order, or a sink), or attend to it in vain (collapse, elsewhere). Whatever the causes, a step
    of temperatures is made from some of the prompts and tried on others.

    Args:
        model: A language model with its head; or the name of one: smollm2, gemma3-270m, a folder, a hub name.
        tokenizer: Its tokeniser; left out for a model by name.
        task: Built-in tasks; a JSONL file of your own prompts, {"prompt": …, "answer": …, "evidence": …} a line; or a
            list of (prompt, answer, evidence). None: recall, maximum, passkey, variables and counting.
        prompts: Prompts of each task and size, or a few more, to fill their last passage.
        questions: Prompts that share a passage.
        longest: Longest prompt in tokens, and never beyond the positions that the model has.
        more: Doublings after the first size at which it fails.
        phrasings: Phrasings of the built-in tasks. None: the first of each.
        seed: Seed of all randomness.
        trial: Try one step of temperatures on prompts that fail: does it mend others?
        device: Where to open a model by name: cpu, cuda, cuda:1, mps, …; auto is a card where there is one, spread is
            over all cards, then memory, then disk. A model that is no name stays where it is.
        dtype: Of a model by name: float32, bfloat16, float16; auto is float32 on the CPU, elsewhere as it was saved.
        runs: Folder in which what was read is kept, so that the same call goes on after an interruption. None: keep
            nothing.
        name: What to call the model. None: as it calls itself.
        progress: Show a bar. None: on a terminal and in a notebook.
        partial: Accept a model of which not all attention is reached (`strop.coverage`), with a warning.

    Returns:
        The diagnosis, with `.verdict`, `.cause`, `.causes`, `.heads`, `.trials`, `.symptoms`, `.table()` and
        `.report(path)`.

    Examples:
        >>> import strop
        >>> found = strop.diagnose(model, tokenizer, task="recall", prompts=4, longest=150, runs=None)
        >>> found.cause is not None, len(found.heads)
        (True, 8)
    """
    tasks, own = read_tasks(task)
    plan = Questioning(prompts, questions, longest, more, tuple(phrasings or ()), seed, trial)
    check_plan(plan, tasks)
    for passage, line in [] if own is None else zip(own.passages, own.lines, strict=True):
        check_evidence(passage, line)
    from strop._progress import show_progress
    from strop.diagnosing.examination import examine
    from strop.diagnosing.trace import COLUMNS
    from strop.patching.block import check_reached
    from strop.patching.freeze import freeze
    from strop.patching.identity import digest_weights, dtype_of
    from strop.pretrained.load import count_positions, open_model

    opened = open_model(model, tokenizer, name, progress, device, dtype)
    check_reached(opened.model, partial)
    config = {
        "tasks": tasks, "plan": replace(plan, trial=True), "model": digest_weights(opened.model),
        "dtype": dtype_of(opened.model), "numbers": COLUMNS,
        "prompts": None if own is None else [repr(own.passages), [one.evidence for one in own.passages]],
    }  # fmt: skip  # what is read does not depend on the trial
    folder = None if runs is None else Run.of(config, "diagnose", runs).folder
    with freeze(opened.model), show_progress("diagnosing", None, progress) as bar:
        found = examine(opened.model, opened.tokenizer, tasks, own, plan, folder, partial, bar.update)
    if runs is not None:
        Run.of(config, "diagnose", runs).finish(config, found.answers)
    from strop.diagnosing.verdict import advise_next

    given = model if isinstance(model, str) else getattr(model, "name", None) if tokenizer is None else None
    settings: Record = {
        "model": opened.name,
        "tasks": ", ".join(tasks),
        **{k: str(v) for k, v in vars(plan).items() if v != ()},
    }
    longer = min(4 * longest, count_positions(opened.model) or 4 * longest)
    more_to_try = longer if own is None and longer > longest else None
    advice = advise_next(given, found.causes, found.trials, None if own is None else own.name, more_to_try)
    return Diagnosis(opened.name, **vars(found), advice=advice, settings=settings, folder=folder)


def read_tasks(task: str | Path | Sequence[str] | Pairs | None) -> tuple[tuple[str, ...], Prompts | None]:
    """Return what `task` means: names of built-in tasks, or the name of a user's own prompts and the prompts."""
    from strop.calibration.verb import read_prompts
    from strop.tasks.catalogue import find_task

    if task is None:
        return DIAGNOSED, None
    names: Any = [task] if isinstance(task, str) else task
    if not isinstance(task, Path) and names and all(isinstance(each, str) for each in names):
        named = [part.strip() for each in names for part in each.split(",")]
        if isinstance(task, str) and (own := read_prompts(task)) is not None:
            return (Path(own.name).name,), own
        for each in named:
            find_task(each)
        return tuple(dict.fromkeys(named)), None
    from strop.tasks.prompts import Prompts

    own = Prompts.read(names)
    return (Path(own.name).name,), own
