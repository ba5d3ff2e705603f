"""`observed`: every head's numbers from whatever runs inside a block, a forward pass or a whole `generate`.

    with observed(model) as seen:
        model.generate(**inputs, max_new_tokens=32)
    seen.records()      # one flat record for each call, layer and head

Statistics are gathered inside the forward pass in O(n) memory. The outputs are the model's own, to rounding
error; inside `sharpened` they are the sharpened model's, and the statistics those of its raw logits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from torch import Tensor, nn

from strop.kernels import Request
from strop.patching.block import Change, apply
from strop.patching.measure import measure
from strop.patching.sites import Sites, find_sites
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
    """What was seen, call by call.

    Attributes:
        layers: Name of each attention module → its number.
        calls: One measurement for each call.

    Examples:
        >>> import strop, torch
        >>> with torch.no_grad(), strop.observed(model) as seen:
        ...     _ = model(torch.arange(3, 23)[None])
        >>> len(seen.calls), len(seen.records())
        (2, 8)
    """

    layers: dict[str, int]
    crosses: Callable[[str, Request], bool]
    calls: list[Measurement] = field(default_factory=list)
    _steps: dict[str, int] = field(default_factory=dict)

    def note(self, name: str, request: Request) -> None:
        """Measure one call; the patch calls this."""
        step = self._steps.get(name, 0)
        self._steps[name] = step + 1
        cross = self.crosses(name, request)
        facts = (request.n_q, request.scale, request.softcap, request.mask.adds, cross, request.key.shape[-3])
        self.calls.append(Measurement(name, self.layers[name], step, *facts, measure(request, cross)))

    def records(self) -> list[Record]:
        """Return one flat record for each call and head: step, layer, name, head, n_queries and the numbers."""
        return [record for call in self.calls for record in _records(call)]

    def __repr__(self) -> str:
        return f"<Observations: {len(self.calls)} calls of {len(self.layers)} attention modules>"


@contextmanager
def observed(model: nn.Module, partial: bool = False) -> Iterator[Observations]:
    """Measure every attention call that a model makes inside the block, a forward pass or a whole `generate`.

    The outputs are the model's own, to rounding error. Statistics are gathered in memory that grows with the length.

    Args:
        model: A transformers model, or any module whose attention is torch's own function.
        partial: Accept a model of which not all attention is reached, with a warning; otherwise it is refused.

    Examples:
        >>> import strop, torch
        >>> with torch.no_grad(), strop.observed(model) as seen:
        ...     _ = model(torch.arange(3, 23)[None])
        >>> seen
        <Observations: 2 calls of 2 attention modules>
        >>> record = seen.records()[0]
        >>> record["layer"], record["head"], record["n_queries"], 0 < record["entropy"] < 3
        (0, 0, 20, True)
    """
    found = find_sites(model)
    layers = {name: layer for layer, name in enumerate(found.all)}
    seen = Observations(layers, lambda name, request: _crosses(model, found, name, request))
    with apply(model, found, Change({}, seen.note, [*found.all, *found.unreached], partial)):
        yield seen


def _crosses(model: nn.Module, found: Sites, name: str, request: Request) -> bool:
    """Whether the keys are not the queries' own tokens: by the module's name, or by their number."""
    above, _, own = name.rpartition(".")
    of_torch = own == "multihead_attn" and isinstance(model.get_submodule(above), nn.TransformerDecoderLayer)
    if of_torch or _CROSS.search(name) is not None:
        return True
    causal = getattr(found.all[name], "is_causal", True) if name not in found.through_torch else False
    return request.n_q != request.n_k and request.mask.diagonal is None and not causal


def _records(call: Measurement) -> list[Record]:
    place: Record = {"step": call.step, "layer": call.layer, "name": call.name}
    columns = {name: values.tolist() for name, values in call.numbers.items()}
    heads = len(next(iter(columns.values())))
    return [
        place | {"head": head, "n_queries": call.n_queries} | {name: values[head] for name, values in columns.items()}
        for head in range(heads)
    ]
