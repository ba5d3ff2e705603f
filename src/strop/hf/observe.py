"""`observed`: every head's numbers from whatever runs inside a block, a forward pass or a whole `generate`.

    with observed(model) as seen:
        model.generate(**inputs, max_new_tokens=32)
    seen.records()      # one flat record for each call, layer and head

Statistics are gathered inside the forward pass in O(n) memory. The outputs are the model's own, to rounding
error; inside `sharpened` they are the sharpened model's, and the statistics those of its raw logits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from torch import Tensor, nn

from strop.hf.calls import Call
from strop.hf.frames import Frame
from strop.hf.masks import adds
from strop.hf.measure import measure
from strop.hf.patch import patched
from strop.hf.sites import sites
from strop.records import Record

_CROSS = re.compile(r"(^|[._])(cross_?att\w*|encoder_attn|EncDecAttention)(\.self)?$")
"""Names of modules that look at another text: its length does not tell, where both have the same."""


@dataclass(frozen=True)
class Measurement:
    """One call of one attention module: its place in the order of calls of that module, and numbers by head [H]."""

    name: str
    layer: int
    step: int
    n_queries: int
    scale: float
    softcap: float | None
    biased: bool
    cross: bool
    key_heads: int
    numbers: dict[str, Tensor]


@dataclass
class Observations:
    """What was seen, call by call."""

    layers: dict[str, int]
    cross: frozenset[str] = frozenset()
    calls: list[Measurement] = field(default_factory=list)
    _steps: dict[str, int] = field(default_factory=dict)

    def note(self, name: str, call: Call) -> None:
        """Measure one call; the patch calls this."""
        step = self._steps.get(name, 0)
        self._steps[name] = step + 1
        call = replace(call, cross=call.cross or name in self.cross)
        biased = call.bias is not None or adds(call.mask)
        facts = (call.query.shape[-2], call.logit_scale, call.softcap, biased, call.cross, call.key.shape[-3])
        self.calls.append(Measurement(name, self.layers[name], step, *facts, measure(call)))

    def records(self) -> list[Record]:
        """Return one flat record for each call and head: step, layer, name, head, n_queries and the numbers."""
        return [record for call in self.calls for record in _records(call)]


@contextmanager
def observed(model: nn.Module) -> Iterator[Observations]:
    """Measure every attention call that the model makes inside the block."""
    found = sites(model)
    cross = frozenset(name for name in found.all if _crosses(model, name))
    seen = Observations({name: layer for layer, name in enumerate(found.all)}, cross)
    frame = Frame({module: name for name, module in found.all.items()}, observer=seen.note)
    with patched(model, found, frame):
        yield seen


def _crosses(model: nn.Module, name: str) -> bool:
    above, _, own = name.rpartition(".")
    of_torch = own == "multihead_attn" and isinstance(model.get_submodule(above), nn.TransformerDecoderLayer)
    return of_torch or _CROSS.search(name) is not None


def _records(call: Measurement) -> list[Record]:
    place: Record = {"step": call.step, "layer": call.layer, "name": call.name}
    columns = {name: values.tolist() for name, values in call.numbers.items()}
    heads = len(next(iter(columns.values())))
    return [
        place | {"head": head, "n_queries": call.n_queries} | {name: values[head] for name, values in columns.items()}
        for head in range(heads)
    ]
