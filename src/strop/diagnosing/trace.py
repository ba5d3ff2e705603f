"""What every head does at the rows of the answers, measured while the model answers, in memory that grows with n.

Only the rows before the answers' tokens are looked at, a handful of each question. Their logits exist one layer at a
time; what is kept is a few numbers a row and head: those of weighing.py, and one of every symptom of a row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from strop.diagnosing.asking import Asked
from strop.diagnosing.symptoms import ROW_SYMPTOMS, TEXT_SYMPTOMS
from strop.diagnosing.symptoms.symptom import Rows
from strop.diagnosing.weighing import NUMBERS, weigh
from strop.kernels import Request
from strop.kernels.dense import form_logits
from strop.patching.block import Change, apply
from strop.patching.sites import find_sites
from strop.sharpness import upcast

COLUMNS = (*NUMBERS, *(symptom.name for symptom in ROW_SYMPTOMS))
"""What is noted of each row and head."""


@dataclass
class Trace:
    """What was seen: the numbers of every layer [q, r, heads, COLUMNS], by the module's name.

    `written` [q, r] is what the model writes at the rows.
    """

    asked: Asked
    written: Tensor
    modules: Mapping[str, nn.Module]
    layers: dict[str, Tensor] = field(default_factory=dict)

    @torch.no_grad()
    def note(self, name: str, request: Request) -> None:
        """Measure one call; the patch calls this."""
        asked = self.asked
        gone = asked.tokens.shape[1] - 1 - request.n_k  # a sliding window's cache has dropped the first tokens
        evidence = asked.evidence[:, None, None, gone:-1]
        keys = asked.tokens[:, None, None, gone:-1]
        right, written = (keys == tokens[:, None, :, None] for tokens in (asked.targets, self.written))
        own = (asked.context.shape[1] + asked.rows - gone)[:, None]
        sink = None if request.sink is None else request.sink[None, :, None]
        logits, seen = form_row_logits(request, asked.rows), _seen(request, asked.rows)
        found = weigh(logits, seen, evidence, right, written, own, sink)
        found = found._replace(top=found.top + gone)
        rows = Rows(self.modules[name], request, asked, logits.masked_fill(~seen, -math.inf), found, gone)
        numbers = [*found, *(symptom.measure(rows) for symptom in ROW_SYMPTOMS)]
        self.layers[name] = torch.stack([number.float().transpose(1, 2) for number in numbers], -1).cpu()

    def numbers(self) -> Tensor:
        """Return [q, r, heads of all layers, COLUMNS], the layers in the model's order."""
        return torch.cat(list(self.layers.values()), 2)


@contextmanager
def traced(model: nn.Module, asked: Asked, written: Tensor, partial: bool = False) -> Iterator[Trace]:
    """Measure every head at the answers' rows while the questions are answered inside the block."""
    found = find_sites(model)
    trace = Trace(asked, written, found.all, dict.fromkeys(found.all, torch.empty(0)))
    with apply(model, found, Change({}, trace.note, [*found.all, *found.unreached], partial)):
        yield trace
    trace.layers = {name: numbers for name, numbers in trace.layers.items() if numbers.numel()}


@contextmanager
def texts_read(model: nn.Module, partial: bool = False) -> Iterator[dict[str, list[Tensor]]]:
    """Measure every symptom of a text, by name a tensor [heads] for each layer, of a text read inside the block."""
    found = find_sites(model)
    seen: dict[str, list[Tensor]] = {symptom.name: [] for symptom in TEXT_SYMPTOMS}

    def note(name: str, request: Request) -> None:
        for symptom in TEXT_SYMPTOMS:
            seen[symptom.name].append(symptom.measure(request).float().cpu())

    with apply(model, found, Change({}, note, [*found.all, *found.unreached], partial)):
        yield seen


def form_row_logits(request: Request, rows: Tensor) -> Tensor:
    """Return the logits [q, heads, r, n] of some rows [q, r] of each question, hidden keys included."""
    query, key = upcast(request.query), upcast(request.key)
    query = query.gather(2, rows[:, None, :, None].expand(-1, query.shape[1], -1, query.shape[-1]))
    groups = query.unflatten(1, (key.shape[1], -1)).flatten(2, 3)  # query heads that share a key head, row by row
    logits: Tensor = form_logits(groups, key, request.scale, request.softcap, None).unflatten(2, (-1, rows.shape[1]))
    logits = logits.flatten(1, 2)
    bias = request.mask.bias
    return logits if bias is None else logits + _pick(bias, rows, request).to(logits)


def _seen(request: Request, rows: Tensor) -> Tensor:
    """Which keys the rows may see, [q, 1 or heads, r, n]."""
    keep = request.mask.dense(request.n_q, request.n_k, rows.device)
    if keep is None:
        return torch.ones((), dtype=torch.bool, device=rows.device)
    return _pick(keep, rows, request)


def _pick(table: Tensor, rows: Tensor, request: Request) -> Tensor:
    """Rows [q, r] out of a table that broadcasts to [q, heads, n_q, n_k]."""
    table = table[(None,) * (4 - table.ndim)]
    table = table.expand(len(rows), -1, request.n_q, request.n_k)
    return table.gather(2, rows[:, None, :, None].expand(-1, table.shape[1], -1, request.n_k))
