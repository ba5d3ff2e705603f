"""The numbers that calibration moves: a form per attention module and, if wanted, a scale per head output."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from strop.calibrate.edge import Edge
from strop.calibrate.forms import form
from strop.calibrate.identity import heads_of
from strop.calibrate.outputs import scaled_outputs
from strop.hf.patch import sharpened


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
    def on(self, model: nn.Module) -> Iterator[None]:
        """Put the numbers in force; gradients reach them."""
        with ExitStack() as stack:
            if self.form != "none":
                stack.enter_context(sharpened(model, self.rules))
            stack.enter_context(scaled_outputs(model, self.scales))
            yield

    @torch.no_grad()
    def shrink(self, amount: float) -> None:
        """Move every number towards 0 by `amount` and stop there: the proximal step of an L1 penalty."""
        for parameter in self.parameters():
            parameter.copy_(parameter.sign() * (parameter.abs() - amount).clamp(min=0.0))

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
