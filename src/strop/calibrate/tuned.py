"""The numbers that calibration moves: a form per attention module and, if wanted, a scale per head output."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext

import torch
from torch import Tensor, nn

from strop.calibrate.edge import Edge
from strop.calibrate.forms import form
from strop.calibrate.identity import heads_of
from strop.calibrate.memory import recomputed
from strop.calibrate.outputs import scaled_outputs
from strop.calibrate.queries import tempered


class Tuned(nn.Module):
    """Learnable numbers for a model's heads; the model itself is not held."""

    def __init__(self, model: nn.Module, name: str, outputs: bool) -> None:
        super().__init__()
        heads = heads_of(model)
        self.form = name
        self.rules = {module: form(name)(count) for module, count in heads.items()}
        self.scales = {module: nn.Parameter(torch.zeros(count)) for module, count in heads.items()} if outputs else {}
        self.numbers = nn.ParameterList([rule.numbers for rule in self.rules.values() if rule.count])
        self.outputs = nn.ParameterList(self.scales.values())

    @contextmanager
    def on(self, model: nn.Module, again: bool = False) -> Iterator[None]:
        """Put the numbers in force; gradients reach them, with `again` by running layers again (memory.py)."""
        with ExitStack() as stack:
            if self.form != "none":
                stack.enter_context(tempered(model, self.rules, by_queries=not again))
            stack.enter_context(scaled_outputs(model, self.scales))
            stack.enter_context(recomputed(model) if again else nullcontext())
            yield

    def state(self) -> list[Tensor]:
        """Return a copy of all numbers."""
        return [parameter.detach().clone() for parameter in self.parameters()]

    @torch.no_grad()
    def restore(self, state: list[Tensor]) -> None:
        """Put a copy back."""
        for parameter, value in zip(self.parameters(), state, strict=True):
            parameter.copy_(value)

    def edge(self, model: nn.Module) -> Edge:
        """Return the numbers as an edge for the model."""
        numbers = {name: rule.numbers.detach().clone() for name, rule in self.rules.items()}
        return Edge.of(model, self.form, numbers, {name: scale.detach().clone() for name, scale in self.scales.items()})
