"""Descent on a few numbers per head of a frozen model, for a task, within a budget of drift.

    minimise  task + λ·drift + HARM·harm      (still.py)

Every few steps all three are measured on a validation split. Where drift or harm is larger than allowed, that is also
measured on the way back to the start: at a point where it should be small enough, and at the end at a few more, which
halve what is left of the way. Where it is small enough, all three are measured. Calibration keeps
the numbers with the lowest validation loss among those within the budget. The start, an edge that does nothing, is
always within it, so a calibration that finds nothing leaves the model as it was.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from strop._checks import require
from strop.calibration.directions import find_directions
from strop.calibration.level_descent import LevelDescent
from strop.calibration.numbers import Numbers, Progress, load_state, save_state
from strop.calibration.objective import Batch, Drift, Group, Guard, Seen, largest
from strop.calibration.optimiser import NaturalDescent
from strop.calibration.quick_passes import quick_passes
from strop.calibration.settings import Settings
from strop.calibration.still import change_weight, hold_still, reads_prose
from strop.edges.edge import Edge
from strop.edges.forms import QUERY_EDITS, read_form
from strop.ranks import ranks_here

Tick = Callable[[Progress], None]

Begun = Callable[[int, int], None]
"""Told how many passes over the untouched model are done, and of how many, before the first step."""

TASK, STILL = range(2)
"""The passes of a step, which ranks share: what is learned, and what is left as it was (still.py)."""

BACK = 0.98
"""How much closer than the estimate to go back, since the square is an estimate."""

RULE = 2
"""Changes where the same data and settings come to give other numbers: no state of before is gone on from."""

HALVINGS = 4
"""How often the way back from the end is halved."""


def descend(
    model: nn.Module,
    batches: Sequence[Batch],
    prose: Sequence[Tensor],
    validation: Sequence[Batch],
    validation_prose: Sequence[Tensor],
    settings: Settings | None = None,
    tick: Tick = lambda _: None,
    resume: Path | None = None,
    guard: Sequence[Sequence[Group]] = (),
    validation_guard: Sequence[Group] = (),
    begun: Begun = lambda done, of: None,
) -> Edge:
    """Return the edge that does best on `validation` within the budget of drift on `validation_prose`.

    `batches` are taken in turn, as are the windows of `prose` [1, n]. `guard` are groups of each task on which no harm
    is to be done, `validation_guard` one group of each. With `resume`, a file, an interrupted calibration goes on after
    its last whole step, provided that it was given the same batches. The model's parameters must be frozen and stay as
    they are. `begun` is told of the passes over the untouched model that come before the first step, `tick` of every
    step.
    """
    settings = settings or Settings()
    frozen = not any(parameter.requires_grad for parameter in model.parameters())
    require(frozen, "model must be frozen", "parameters that want gradients", "Call model.requires_grad_(False)")
    require(len(batches) > 0 and len(validation) > 0, "batches and validation must hold at least one batch", "none")
    passes = [len(prose), len(validation_prose), *(len(groups) for groups in guard), len(validation_guard)]
    if resume is None or not resume.exists():
        lengths = [ids.shape[1] for ids in prose]
        scored = choose_optimiser(settings.form).scored
        passes += [lengths.count(min(lengths, default=0)) if scored else 0, len(validation)]
    seen = _count(begun, sum(passes))
    with quick_passes(model, settings.half):
        ours = ranks_here()
        learned = Goals(
            batches, Drift(model, prose, seen, lambda _: ours.does(STILL)),
            Guard(model, guard, seen, lambda _: ours.does(STILL)),
        )  # fmt: skip
        validated = Goals(
            validation, Drift(model, validation_prose, seen, ours.takes),
            Guard(model, [[group] for group in validation_guard], seen, ours.takes),
        )  # fmt: skip
        return _Descent(model, learned, validated, settings).run(tick, resume, seen)


def choose_optimiser(form: str) -> type[NaturalDescent]:
    """Steps in the metric of drift; level ones where the form edits the query."""
    edits = any(term in QUERY_EDITS for term in read_form(form))
    return LevelDescent if edits else NaturalDescent


def _count(begun: Begun, of: int) -> Seen:
    done = itertools.count(1)
    begun(0, of)
    return lambda: begun(next(done), of)


class Goals(NamedTuple):
    """What to gain, and what to leave as it was."""

    batches: Sequence[Batch]
    drift: Drift
    guard: Guard


class Candidate(NamedTuple):
    """Numbers and what validation says of them."""

    task: float
    drift: float
    harms: list[float]
    numbers: list[Tensor]

    @property
    def harm(self) -> float:
        """That to the guarded task that suffers most."""
        return largest(self.harms)

    def excess(self, settings: Settings) -> float:
        """How many times too far the numbers are: drift grows as their square, harm evenly. At most 1 is within."""
        return largest([math.sqrt(largest([self.drift]) / settings.budget), self.harm / settings.harm])


class _Descent:
    def __init__(self, model: nn.Module, learned: Goals, validated: Goals, settings: Settings) -> None:
        self.model, self.learned, self.validated, self.settings = model, learned, validated, settings
        self.ranks = ranks_here()
        self.numbers = Numbers(model, settings.form, settings.outputs, settings.rank)
        self.optimiser = choose_optimiser(settings.form)(list(self.numbers.parameters()))
        self.progress = Progress()
        self.best: list[Tensor] = self.numbers.state()

    @property
    def _radius(self) -> float:
        """How far the budget reaches, in the optimiser's unit of length."""
        return math.sqrt(2.0 * self.settings.budget)

    @property
    def _rank(self) -> int:
        """The rank of what is learned: 1 where it is no low-rank edit."""
        return self.settings.rank if self.numbers.downs() else 1

    def run(self, tick: Tick, resume: Path | None, seen: Seen) -> Edge:
        """Descend to the end, or until validation has not improved for long enough."""
        if resume is not None and resume.exists():
            self.progress, self.best = load_state(resume, self.numbers, self.optimiser)
        else:
            self._begin(seen)
            self._save(resume)
        tick(self.progress)
        while self.progress.step < self.settings.steps and self.progress.waited < self.settings.patience:
            self._step()
            if self.progress.step % self.settings.every == 0 or self.progress.step == self.settings.steps:
                self._validate()
            self._save(resume)
            tick(self.progress)
        self.numbers.restore(self.best)
        made = {"settings": asdict(self.settings), "progress": asdict(self.progress)}
        return replace(self.numbers.edge(self.model), made=made)

    def _save(self, path: Path | None) -> None:
        if path is not None and self.ranks.leads:
            save_state(path, self.progress, self.best, self.numbers, self.optimiser)

    def _begin(self, seen: Seen) -> None:
        """Learn where to start, how much each number may move, and how things stand before anything moves."""
        self._turn()
        draw, numbers = torch.Generator().manual_seed(0), self.optimiser.parameters
        squares, windows = [torch.zeros_like(number) for number in numbers], 0
        with self.numbers.on(self.model, again=self.settings.recompute):
            scored = self.optimiser.scored and self.ranks.does(STILL)
            for score, places in self.learned.drift.scores(self.model, draw) if scored else ():
                self.optimiser.zero()
                torch.autograd.backward(score)
                squares = [
                    s + n.grad**2 / places if n.grad is not None else s for s, n in zip(squares, numbers, strict=True)
                ]
                windows += 1
                seen()
        *squares, count = self.ranks.add([*squares, torch.tensor(windows)])
        self.optimiser.measure([square / max(1, int(count)) for square in squares], self._radius, self.numbers.lengths)
        self._validate(seen)

    def _turn(self) -> None:
        """Let a low-rank edit start in directions that serve the task; one rank finds them for all."""
        downs = self.numbers.downs()
        if downs:
            found = [torch.zeros_like(down) for down in downs]
            if self.ranks.leads:
                goals, rank = self.learned, self.settings.rank
                found = find_directions(self.model, goals.batches, goals.drift.windows, rank)
            self.numbers.turn(self.ranks.add(found))
            self.best = self.numbers.state()

    def _step(self) -> None:
        began, step, settings = time.monotonic(), self.progress.step, self.settings
        radius = self._radius
        self.optimiser.zero()
        ranks, task, drift = self.ranks, torch.zeros(()), torch.zeros(())
        with self.numbers.on(self.model, again=self.settings.recompute):
            if ranks.does(TASK):
                task = self.learned.batches[step % len(self.learned.batches)].loss(self.model)
                torch.autograd.backward(task)  # before the drift, so that one graph is in memory at a time
            weight = self.progress.weight or ranks.tell(self.optimiser.first_weight(radius), ranks.owner(TASK))
            if ranks.does(STILL):
                drift = hold_still(self.model, self.learned.drift, self.learned.guard, step, weight)
        task, drift = self._join(task.detach(), drift)
        rate = radius * settings.rate * self.optimiser.pace(self._rank, weight) * (1.0 - 0.8 * step / settings.steps)
        self.optimiser.step(rate)
        self.optimiser.shrink(rate * settings.sparsity, self.numbers.start)
        self.progress = replace(
            self.progress, step=step + 1, task=float(task), weight=weight,
            seconds=self.progress.seconds + time.monotonic() - began,
        )  # fmt: skip
        if reads_prose(self.learned.guard, step):
            weight = change_weight(weight, float(drift), settings.budget)
            self.progress = replace(self.progress, drift=float(drift), weight=weight)

    def _join(self, *losses: Tensor) -> list[Tensor]:
        """Sum gradients and losses over ranks; each has those of its own passes."""
        parameters = self.optimiser.parameters
        own = [torch.zeros_like(one) if one.grad is None else one.grad for one in parameters]
        found = self.ranks.add([*own, *losses])
        for parameter, gradient in zip(parameters, found, strict=False):
            parameter.grad = gradient
        return found[len(parameters) :]

    def _validate(self, seen: Seen = lambda: None) -> None:
        """Measure where we are and, if that is beyond what is allowed, the way back to where it should be within."""
        began = time.monotonic()
        here = self._measure(seen)
        found = [here, *self._go_back(here)]
        self.progress = replace(
            self.progress, valid_task=here.task, valid_drift=here.drift, valid_harm=here.harm,
            first_task=here.task if self.progress.step == 0 else self.progress.first_task,
        )  # fmt: skip
        self._keep(found)
        self.progress = replace(self.progress, seconds=self.progress.seconds + time.monotonic() - began)

    def _go_back(self, here: Candidate) -> list[Candidate]:
        """Measure where, on the way back, all is within what is allowed; at the end the last such point is looked for.

        What is within here is within nearer to the start, as a rule: so first only what is beyond is measured.
        """
        progress, settings = self.progress, self.settings
        last = progress.step == settings.steps or progress.waited + 1 >= settings.patience
        excess = here.excess(settings)
        if not excess > 1.0:
            return []
        within, beyond, share = [0.0], 1.0, BACK / excess
        for _ in range(1 + HALVINGS if last else 1):
            self._go_to(here, share)
            if self._is_within(here):
                within.append(share)
            else:
                beyond = share
            share = (within[-1] + beyond) / 2
        found: list[Candidate] = []
        while len(within) > 1 and not (found and found[-1].excess(settings) <= 1.0):
            self._go_to(here, within.pop())
            found.append(self._measure())
        self.numbers.restore(here.numbers)
        return found

    def _go_to(self, here: Candidate, share: float) -> None:
        self.numbers.restore(self.numbers.way_back(here.numbers, share))

    @torch.no_grad()
    def _is_within(self, here: Candidate) -> bool:
        """Whether what is beyond `here` is within what is allowed where we are."""
        settings, (_, drift, guard) = self.settings, self.validated
        with self.numbers.on(self.model):
            if not (here.drift <= settings.budget or drift.worst(self.model) <= settings.budget):
                return False
            suffering = [i for i, harm in enumerate(here.harms) if not harm <= settings.harm]
            return largest(guard.harms(self.model, suffering)) <= settings.harm

    @torch.no_grad()
    def _measure(self, seen: Seen = lambda: None) -> Candidate:
        batches, drift, guard = self.validated

        def lose(i: int) -> float:
            seen()
            return float(batches[i].loss(self.model))

        with self.numbers.on(self.model):
            losses = self.ranks.collect(len(batches), lose)
            moved = self.progress.step > 0
            still = (drift.worst(self.model), guard.harms(self.model)) if moved else (0.0, [])
        return Candidate(sum(losses) / len(losses), *still, self.numbers.state())

    def _keep(self, found: list[Candidate]) -> None:
        better = [one for one in found if one.excess(self.settings) <= 1.0 and one.task < self.progress.best_task]
        if not better:
            self.progress = replace(self.progress, waited=self.progress.waited + 1)
            return
        best = min(better, key=lambda one: one.task)
        self.best = best.numbers
        self.progress = replace(
            self.progress, best_task=best.task, best_drift=best.drift, best_harm=best.harm,
            best_step=self.progress.step, waited=0,
        )  # fmt: skip
