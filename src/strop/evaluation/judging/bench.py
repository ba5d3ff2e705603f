"""A bench: which tasks of lm-evaluation-harness, at which lengths, on how many documents. Needs no torch.

`ruler` are the tasks of RULER (arXiv 2404.06654) whose documents are made up offline. Three hide a needle; one follows
a chain of variables; two count words, for which sharper attention cannot help: controls.
`lm-eval:TASK` is any other task of the harness, or several between commas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strop._checks import require, require_distinct
from strop.errors import ArgumentError

NEEDLES = ("niah_single_1", "niah_multikey_2", "niah_multikey_3")
CONTROLS = ("ruler_cwe", "ruler_fwe")
RULER: tuple[str, ...] = (*NEEDLES, "ruler_vt", *CONTROLS)

LENGTHS: tuple[int, ...] = (1024, 2048, 4096, 8192)
SHORTEST = 1024
"""Tokens below which the generator of ruler_vt finds no document that fits, and never ends."""

DOCUMENTS = 50
OTHERS = "lm-eval:"


@dataclass(frozen=True)
class BenchCell:
    """One task at one length. None: documents as long as they are."""

    task: str
    tokens: int | None

    def __str__(self) -> str:
        return self.task if self.tokens is None else f"{self.task} at {self.tokens:,} tokens"


@dataclass(frozen=True)
class Bench:
    """What a model is judged by.

    Examples:
        >>> bench = Bench.of("ruler", lengths=(1024,), documents=20)
        >>> len(bench.cells()), str(bench.cells()[0])
        (6, 'niah_single_1 at 1,024 tokens')
        >>> Bench.of("lm-eval:arc_easy").cells()
        [BenchCell(task='arc_easy', tokens=None)]
    """

    name: str
    tasks: tuple[str, ...]
    lengths: tuple[int, ...]
    documents: int = DOCUMENTS
    seed: int = 0

    @classmethod
    def of(cls, suite: str, lengths: Sequence[int] | None = None, documents: int | None = None, seed: int = 0) -> Bench:
        """Return the bench of a name: ruler, or lm-eval:TASK."""
        if suite == "ruler":
            tasks, usual = RULER, LENGTHS
        elif suite.startswith(OTHERS) and suite != OTHERS:
            tasks, usual = tuple(suite.removeprefix(OTHERS).split(",")), ()
        else:
            raise ArgumentError(f"suite must be ruler or lm-eval:TASK, got {suite!r}. For example lm-eval:arc_easy.")
        chosen = usual if lengths is None else tuple(lengths)
        return cls(suite, tasks, chosen, DOCUMENTS if documents is None else documents, seed)

    def __post_init__(self) -> None:
        require(self.documents >= 1, "prompts must be at least 1", self.documents)
        for name in ("tasks", "lengths"):
            require_distinct(name, getattr(self, name))
        least = min(self.lengths, default=SHORTEST)
        rule = f"lengths of RULER must be at least {SHORTEST:,} tokens"
        require(self.name != "ruler" or least >= SHORTEST, rule, least, "Its tasks hold a question and an example")

    def cells(self) -> list[BenchCell]:
        """Return every task at every length, the short ones first."""
        return [BenchCell(task, tokens) for tokens in self.lengths or (None,) for task in self.tasks]
