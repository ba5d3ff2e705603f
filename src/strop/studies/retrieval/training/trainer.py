"""Train a max-retrieval retriever: deterministic in its config, and resumable.

Every batch is drawn from one generator seeded by the config, so the same config gives the same weights, byte for
byte, on the same machine and torch build. The state on disk (`checkpoint_file.py`) holds weights, moments, the
running weight average and the generator, so a killed run continues as if it had not been.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Generator, Tensor, nn

from strop.errors import ArgumentError
from strop.studies.networks.fast_retriever import FlatParameters
from strop.studies.networks.retriever import Retriever, RetrieverConfig
from strop.studies.problems.max_retrieval import MaxRetrieval
from strop.studies.retrieval.training.gradient import Workspace, loss_and_gradient

OnLoss = Callable[[int, float], None]
"""Called with the step and the mean loss since the last call."""
LOG_EVERY = 500


@dataclass(frozen=True)
class TrainConfig:
    """One training run. Fields the paper leaves open are settings; docs/reproduce.md says why each default."""

    seed: int = 0
    steps: int = 100_000
    batch: int = 128
    sizes: tuple[int, int] = (5, 16)  # every batch has one size, uniform over this closed range
    lr: float = 1e-3
    schedule: Literal["constant", "cosine"] = "constant"
    weight_decay: float = 1e-3
    decay: Literal["decoupled", "coupled"] = "decoupled"  # AdamW, or weight_decay * w added to the gradient
    average_last: int = 1_000  # steps over which the averaged weights are taken
    task: MaxRetrieval = field(default_factory=MaxRetrieval)
    model: RetrieverConfig = field(default_factory=RetrieverConfig)

    def __post_init__(self) -> None:
        low, high = self.sizes
        if not 1 <= low <= high:
            raise ArgumentError(f"sizes must satisfy 1 <= low <= high, got {self.sizes}. Use (5, 16) or (16, 16).")
        for name in ("steps", "batch", "average_last"):
            if getattr(self, name) < 1:
                raise ArgumentError(f"{name} must be at least 1, got {getattr(self, name)}. Use the default.")
        if not (math.isfinite(self.lr) and self.lr > 0):
            raise ArgumentError(f"lr must be positive and finite, got {self.lr}. Use 1e-3.")
        if not (math.isfinite(self.weight_decay) and self.weight_decay >= 0):
            raise ArgumentError(f"weight_decay must be at least 0 and finite, got {self.weight_decay}. Use 1e-3.")
        for name, known in (("schedule", ("constant", "cosine")), ("decay", ("decoupled", "coupled"))):
            if getattr(self, name) not in known:
                raise ArgumentError(f"{name} must be one of {known}, got {getattr(self, name)!r}. Use {known[0]!r}.")
        if (self.task.features, self.task.classes) != (self.model.features, self.model.classes):
            raise ArgumentError(
                f"model must have the task's features and classes {(self.task.features, self.task.classes)}, "
                f"got {(self.model.features, self.model.classes)}. Build both from the same numbers."
            )


class Trainer:
    """One run's state: `params`, Adam's moments, the weight average, the data generator and the step count."""

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.generator = Generator().manual_seed(config.seed)
        model = Retriever(config.model, self.generator)
        self.params, self.grad = FlatParameters(config.model).load(model.state_dict()), FlatParameters(config.model)
        self.average = torch.zeros_like(self.params.vector)
        self.step = 0
        self.losses: list[float] = []
        self._loss = torch.zeros(())
        self._space = Workspace(config.batch * config.sizes[1], config.model.width)
        parameter = nn.Parameter(self.params.vector)
        parameter.grad = self.grad.vector
        kind = torch.optim.AdamW if config.decay == "decoupled" else torch.optim.Adam
        self.optimiser = kind([parameter], lr=config.lr, weight_decay=config.weight_decay, fused=True)
        self.optimiser.state[parameter] = {
            "step": torch.zeros((), dtype=torch.float32),
            "exp_avg": torch.zeros_like(self.params.vector),
            "exp_avg_sq": torch.zeros_like(self.params.vector),
        }
        self._moments = self.optimiser.state[parameter]

    @torch.no_grad()
    def advance(self) -> Tensor:
        """One step; returns its loss."""
        c = self.config
        low, high = c.sizes
        size = int(torch.randint(low, high + 1, (), generator=self.generator))
        sets = c.task.sample(c.batch, size, self.generator)
        items = c.task.items(sets.values, sets.classes)
        loss = loss_and_gradient(self.params, self.grad, self._space, items, sets.query, sets.target, c.model)
        if c.schedule == "cosine":
            self.optimiser.param_groups[0]["lr"] = c.lr * 0.5 * (1 + math.cos(math.pi * self.step / c.steps))
        self.optimiser.step()
        self.step += 1
        averaged = self.step - max(0, c.steps - c.average_last)
        if averaged > 0:
            self.average.lerp_(self.params.vector, 1.0 / averaged)
        return loss

    def run(self, until: int, on_loss: OnLoss | None = None) -> None:
        """Advance to step `until`; every `LOG_EVERY` steps note the mean loss and call on_loss(step, mean loss)."""
        while self.step < until:
            self._loss += self.advance()
            if self.step % LOG_EVERY == 0:
                mean = float(self._loss) / LOG_EVERY
                if not math.isfinite(mean):
                    raise ArithmeticError(f"loss must stay finite, got {mean} before step {self.step}. Lower lr.")
                self.losses.append(mean)
                self._loss.zero_()
                if on_loss is not None:
                    on_loss(self.step, mean)

    def state(self) -> dict[str, Tensor]:
        """All that decides how the run goes on."""
        return {
            "params": self.params.vector,
            "average": self.average,
            "exp_avg": self._moments["exp_avg"],
            "exp_avg_sq": self._moments["exp_avg_sq"],
            "generator": self.generator.get_state(),
            "step": torch.tensor(self.step),
            "loss": self._loss,
            "losses": torch.tensor(self.losses, dtype=torch.float64),
        }

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Take over a state of a run with the same config."""
        self.params.vector.copy_(state["params"])
        self.average.copy_(state["average"])
        self._moments["exp_avg"].copy_(state["exp_avg"])
        self._moments["exp_avg_sq"].copy_(state["exp_avg_sq"])
        self.generator.set_state(state["generator"])
        self.step = int(state["step"])
        self._moments["step"].fill_(self.step)
        self._loss.copy_(state["loss"])
        self.losses = state["losses"].tolist()
