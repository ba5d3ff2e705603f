"""DySCO (arXiv 2602.22175): at every step of decoding a few retrieval heads pick tokens, and all heads see them raised.

    importance   i_t = mean over the retrieval heads of the weights of row t, in a first pass, with nothing raised
    memory       m_t ∝ i_t + 0.75·m_{t−1}, with sum 1; 0 before the first step
    picked       the largest of m_t as long as they sum to at most 0.975, the largest one in any case; 4,096 at most
    raised       logits + log 2 at the picked keys and at the row's own key, in all heads, in a second pass

Rule and constants are those of the authors' code (MIT). Memory begins ten rows before the answer. Logits are raised
from the row that the answer's first token is read from, and two before it, on. The heads are the 16 of the largest
retrieval score (retrieval_heads.py).

Different here:

    a question of fewer than ten tokens has its memory begin at its first: its context was read before
    questions beside each other are raised from the same row on, the third last of the shortest
    the first token is never raised. In the authors' chats it is of the template, all of which is left out
    a text that is read in one pass is not decoded, and stays as it is
    heads are found on look-up, not on questions about chats or encyclopaedias
"""

from __future__ import annotations

import copy
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from strop._types import Keep, Logits, Weights
from strop.kernels import Request
from strop.normalisers import Normaliser
from strop.normalisers.base import softmax
from strop.patching.sharpen import sharpened
from strop.records import write_text
from strop.records.addresses import short_id
from strop.studies.rivals.board import RivalBoard
from strop.studies.rivals.made import Made
from strop.studies.rivals.retrieval_heads import find_heads, measure_weights, noted
from strop.tasks.answers import Reader

if TYPE_CHECKING:
    from strop.pretrained.load import Opened

Heads = Mapping[str, Sequence[int]]
"""Numbers of heads by the name of their attention module."""


@dataclass(frozen=True)
class Dysco:
    """The constants of the rule. `remembered` and `raised` count rows up to the answer, `heads` the retrieval heads."""

    strength: float = 2.0
    decay: float = 0.75
    share: float = 0.975
    most: int = 4096
    remembered: int = 10
    raised: int = 3
    heads: int = 16

    def remember(self, memory: Tensor, importance: Tensor) -> Tensor:
        """Return the memory [b, n] after a step, of the one before it, which knows fewer keys."""
        found = importance + self.decay * F.pad(memory, (0, importance.shape[-1] - memory.shape[-1]))
        return found / found.sum(-1, keepdim=True)

    def raise_by(self, memory: Tensor) -> Tensor:
        """Return what is added to the logits of the keys [b, n]; the last key is the row's own."""
        largest = memory.sort(-1, descending=True)
        inside = largest.values.cumsum(-1) <= self.share
        inside[:, 0], inside[:, self.most :] = True, False
        picked = torch.zeros_like(inside).scatter(-1, largest.indices, inside)
        picked[:, 0], picked[:, -1] = False, True
        return math.log(self.strength) * picked


class Raised(Normaliser):
    """softmax(e + r), r [batch, n] given; where a layer sees only the last of the keys, the last of r."""

    def __init__(self, by: Tensor) -> None:
        super().__init__()
        self.by = by

    def weights(self, logits: Logits, keep: Keep | None = None) -> Weights:
        """Softmax of the raised logits [batch, heads, n_q, n]."""
        return softmax(logits + self.by[:, None, None, -logits.shape[-1] :].to(logits), keep)


@contextmanager
def stepwise(model: Any, heads: Heads, rule: Dysco) -> Iterator[None]:
    """Read the answers that a model is asked for step by step by this rule, inside the block."""
    own = vars(model).get("forward")  # accelerate puts one there to move tensors between devices
    model.forward = partial(_read, model, model.forward, heads, rule)
    try:
        yield
    finally:
        del model.forward
        if own is not None:
            model.forward = own


def _read(
    model: nn.Module, forward: Callable[..., Any], heads: Heads, rule: Dysco, input_ids: Tensor,
    past_key_values: Any = None, logits_to_keep: Tensor | int = 0, **others: Any,
) -> Any:  # fmt: skip
    """One call of a model: where it asks for some rows' logits (tasks/answers.py), these rows are steps."""
    if not isinstance(logits_to_keep, Tensor):
        return forward(input_ids, past_key_values=past_key_values, logits_to_keep=logits_to_keep, **others)
    first, last = int(logits_to_keep[0]), int(logits_to_keep[-1])
    begin, start = (max(0, first + 1 - rows) for rows in (rule.remembered, rule.raised))
    cache, logits = past_key_values, []
    before = 0 if cache is None else cache.get_seq_length()
    memory = torch.zeros(len(input_ids), 0, device=input_ids.device)

    def run(rows: slice, cache: Any) -> Any:
        return forward(input_ids[:, rows], past_key_values=cache, use_cache=True, logits_to_keep=1)

    if begin > 0:
        cache = run(slice(0, begin), cache).past_key_values
    if start > begin:
        with _important(model, heads, before + start) as rows:
            cache = run(slice(begin, start), cache).past_key_values
        for row in rows().unbind(1):
            memory = rule.remember(memory, row)
    for i in range(start, last + 1):
        with _important(model, heads, before + i + 1) as rows:
            run(slice(i, i + 1), _branch(cache))
        memory = rule.remember(memory, rows()[:, 0])
        with sharpened(model, Raised(rule.raise_by(memory))):
            out = run(slice(i, i + 1), cache)
        cache = out.past_key_values
        logits.append(out.logits)
    out.logits = torch.cat(logits, 1)[:, logits_to_keep - start]
    return out


@contextmanager
def _important(model: nn.Module, heads: Heads, n: int) -> Iterator[Callable[[], Tensor]]:
    """For what is read inside the block, of n keys at its end: the mean of the heads' weights, [b, rows, n]."""
    found: list[Tensor] = []

    def note(name: str, request: Request) -> None:
        if name in heads:
            found.extend(measure_weights(request)[:, list(heads[name])].unbind(1))

    with noted(model, note):  # a sliding window has dropped the first keys
        yield lambda: torch.stack([F.pad(weights, (n - weights.shape[-1], 0)) for weights in found]).mean(0)


def _branch(cache: Any) -> Any:
    """A cache that grows apart from the given one: growing makes new tensors."""
    made = copy.copy(cache)
    if cache is not None:
        made.layers = [copy.copy(layer) for layer in cache.layers]
    return made


def make_dysco(opened: Opened, board: RivalBoard, folder: Path, learn: bool) -> Made | None:
    """Find the retrieval heads, or read which they were."""
    rule = Dysco()
    given = {"size": board.pairs[1], "seed": board.seed, "count": rule.heads}
    path = folder / f"dysco-{short_id({**board.learned(), **asdict(rule)})}.json"
    if not path.exists():
        if not learn:
            return None
        began = time.monotonic()
        found = find_heads(opened.model, Reader(opened.tokenizer), **given)
        write_text(path, json.dumps({"heads": found, "seconds": time.monotonic() - began}) + "\n")
    kept = json.loads(path.read_text())
    heads: dict[str, list[int]] = {}
    for name, head, _ in kept["heads"]:
        heads.setdefault(name, []).append(head)
    (*_, most), (*_, least) = kept["heads"][0], kept["heads"][-1]
    note = f"{len(kept['heads'])} heads, scores {least:.2f} to {most:.2f}"
    return Made(path.stem, lambda: stepwise(opened.model, heads, rule), 0, kept["seconds"], note, False)
