"""One model in every column: the untouched model against the same model under strop, and what came of it.

equal         the same numbers, to rounding
partial       refused unless told `partial=True`, naming what is not reached; with it, equal
refused       a StropError before anything ran
raised        an error inside the block that the untouched model does not raise
differs       other numbers
silent        ran, and left attention as it was without a word
not runnable  the untouched model does not run here, and why
–             the column does not apply
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

import strop
from strop.normalisers import Softmax
from sweep.columns import COLUMNS, Case, Column
from sweep.configs import LADDER
from sweep.inputs import runnable
from sweep.models import class_names, tiny_model
from sweep.watch import Watch

OUTCOMES = ("equal", "partial", "refused", "raised", "differs", "silent", "not runnable")
CLOSE, VISIBLE, BETA = 1e-3, 1e-2, 2.0
"""Largest difference relative to the largest value; least change that doubled logits must make."""

Block = Callable[..., AbstractContextManager[Any]]


@dataclass(frozen=True)
class Outcome:
    """What came of one column, in a word and in detail."""

    word: str
    detail: str = ""
    apart: float = 0.0
    """The largest difference from the untouched model."""


@dataclass
class Row:
    """All columns of one model type."""

    model_type: str
    model_class: str = ""
    reads: str = ""
    attention: int = 0
    """Modules that were seen to compute attention in the untouched model's forward pass."""
    left: list[str] = field(default_factory=list)
    """Those of them that strop does not reach."""
    columns: dict[str, Outcome] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """The row as plain data."""
        return asdict(self)


def check(model_type: str) -> Row:
    """Fill one row."""
    row = Row(model_type, class_names(model_type)[0])
    try:
        case = find_case(model_type)
    except Exception as error:
        row.columns = {name: Outcome("not runnable", describe(error)) for name in COLUMNS}
        return row
    row.reads = case.kind
    for name, column in COLUMNS.items():
        row.columns[name] = _check_column(case, name, column, row)
    return row


def find_case(model_type: str) -> Case:
    """A tiny model and inputs that it takes, by the first rung of the ladder that runs."""
    complaints = []
    for rung in LADDER:
        try:
            model = tiny_model(model_type, rung)
            with torch.no_grad():
                kind, inputs = runnable(model, lambda inputs, model=model: model(**inputs))
        except Exception as error:
            complaints.append(error)
        else:
            return Case(model, inputs, kind)
    raise complaints[0]


def _check_column(case: Case, name: str, column: Column, row: Row) -> Outcome:
    if missing := column.missing(case):
        return Outcome("–", missing)
    if name != "forward" and row.columns["forward"].word == "refused":
        return Outcome("refused")  # before anything runs, so whatever the column
    plain = Watch(case.model)
    try:
        with plain:
            theirs = _run(column, case)
    except Exception as error:
        return Outcome("not runnable", describe(error))
    if not theirs or not all(tensor.isfinite().any() for tensor in theirs):
        return Outcome("not runnable", "nothing finite comes out")
    row.attention = row.attention or len(plain.sites)
    if name == "doubled":
        return _check_doubled(case, column, row, theirs, plain)
    block: Block = (
        _observe if name == "statistics" else lambda model, **words: strop.sharpened(model, Softmax(), **words)
    )
    return _compare(case, column, row, theirs, block)


def _check_doubled(case: Case, column: Column, row: Row, plain: list[Tensor], seen: Watch) -> Outcome:
    """All attention with doubled logits, by torch alone, is what strop must give."""
    with Watch(case.model, BETA, frozenset(seen.softmaxes)):
        theirs = _run(column, case)
    outcome = _compare(case, column, row, theirs, lambda model, **words: strop.sharpened(model, Softmax(BETA), **words))
    if outcome.word == "equal" and distance(plain, theirs) < VISIBLE:
        return replace(outcome, detail="but twice the logits hardly change this model")
    return outcome


def _compare(case: Case, column: Column, row: Row, theirs: list[Tensor], block: Block) -> Outcome:
    outcome = _enter(case, column, row, theirs, block, {})
    if outcome.word not in ("refused", "raised") or "partial=True" not in outcome.detail:
        return outcome
    again = _enter(case, column, row, theirs, block, {"partial": True})
    if again.word == "equal" or (again.word == "silent" and _told(case.model, row.left)):
        return replace(again, word="partial", detail=outcome.detail)
    return again


def _told(model: nn.Module, left: list[str]) -> bool:
    """Whether strop names every module that was left alone, or the one around it."""
    names = [f"{name}." for name in strop.coverage(model).unreached]
    return all(f"{site}.".startswith(tuple(names)) for site in left)


def _enter(case: Case, column: Column, row: Row, theirs: list[Tensor], block: Block, words: dict[str, Any]) -> Outcome:
    """Run the column inside a block of strop's, watched."""
    left, entered = Watch(case.model), False
    try:
        with left, block(case.model, **words):
            entered = True
            ours = _run(column, case)
    except strop.StropError as error:
        return Outcome("raised" if entered else "refused", describe(error))
    except Exception as error:
        return Outcome("raised", describe(error))
    far = distance(theirs, ours)
    row.left = sorted({*row.left, *left.sites})
    differs = "" if far < CLOSE else f"by {far:.1e} of the largest value"
    if left.sites:
        return Outcome("silent", f"left alone: {_few(left.sites)}" + (differs and f"; differs {differs}"), far)
    return Outcome("differs", differs, far) if differs else Outcome("equal", "", far)


class _observe:  # noqa: N801, a block, written as one
    """`strop.observed`, with its numbers checked at the end."""

    def __init__(self, model: nn.Module, **words: Any) -> None:
        self._block = strop.observed(model, **words)

    def __enter__(self) -> None:
        self._seen = self._block.__enter__()

    def __exit__(self, *error: Any) -> bool | None:
        done = self._block.__exit__(*error)
        if error[0] is None:
            for call in self._seen.calls:
                entropy, keys = call.numbers["entropy"], call.numbers["n_keys"]
                fine = (entropy > -1e-4) & (entropy < keys.clamp(min=1).log() + 1e-4) | (keys == 0) | keys.isnan()
                if not fine.all():
                    raise ArithmeticError(f"entropy {entropy.tolist()} over {keys.tolist()} keys in {call.name}")
        return done


def _run(column: Column, case: Case) -> list[Tensor]:
    torch.manual_seed(0)
    return [tensor.detach().double() for tensor in column.run(case)]


def distance(theirs: list[Tensor], ours: list[Tensor]) -> float:
    """The largest difference, relative to each tensor's largest value; infinite where shapes or NaNs differ.

    A tensor that is next to nothing beside the others, as the gradient of a key's bias, is measured by them.
    """
    if len(theirs) != len(ours):
        return math.inf
    floor = max(map(_largest, theirs), default=0.0) * CLOSE
    return max((_distance(a, b, floor) for a, b in zip(theirs, ours, strict=True)), default=0.0)


def _distance(theirs: Tensor, ours: Tensor, floor: float) -> float:
    if theirs.shape != ours.shape or not torch.equal(theirs.isfinite(), ours.isfinite()):
        return math.inf
    kept = theirs.isfinite()
    scale = max(_largest(theirs), floor, 1e-6)
    return float((theirs[kept] - ours[kept]).abs().max()) / scale if kept.any() else 0.0


def _largest(tensor: Tensor) -> float:
    kept = tensor[tensor.isfinite()]
    return float(kept.abs().max()) if kept.numel() else 0.0


def describe(error: BaseException) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:600]


def _few(sites: Counter[str]) -> str:
    names = list(sites)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
