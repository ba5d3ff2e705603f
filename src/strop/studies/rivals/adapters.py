"""PEFT's LoRA and (IA)³ on the board's data: what a practitioner would do instead.

Plain AdamW on the answers and echoes that edges learn from, no budget, no guard; α = 2·rank. Of several learning rates
the one with the lowest validation loss is kept. Each rate is trained once and kept as PEFT's own adapter folder.

A *held* LoRA has the care of our calibration as well: its prose, budget and guard, and the way back in the end. So it
tells whether care or rank makes the difference.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from strop.calibration.data import Data
from strop.calibration.descent import BACK, Candidate
from strop.calibration.half_products import saves_time
from strop.calibration.level_descent import FIRST_WEIGHT
from strop.calibration.objective import Drift, Guard
from strop.calibration.quick_passes import quick_passes
from strop.calibration.settings import GUARD, Recipe, Settings
from strop.calibration.still import change_weight, hold_still, reads_prose
from strop.records import write_text
from strop.records.addresses import short_id
from strop.studies.rivals.board import RivalBoard
from strop.studies.rivals.made import Made
from strop.tasks.answers import Reader

if TYPE_CHECKING:
    from strop.pretrained.load import Opened

TRIES = 10
"""Times that a held adapter is shortened, at most: how drift grows with its length is an estimate."""

LOSS = "validated.json"
"""Written last: what validation said, and how long the training took."""


def make_adapter(
    name: str, settings: Mapping[str, Any], opened: Opened, board: RivalBoard, folder: Path, learn: bool
) -> Made | None:
    """Train with every rate, or read what was trained; return the best on validation."""
    given = {**board.learned(), **settings, **({"care": asdict(Settings())} if settings.get("held") else {})}
    paths = {rate: folder / f"{name}-{short_id({**given, 'rate': rate})}" for rate in board.rates}
    for rate, path in paths.items():
        if learn and not (path / LOSS).exists():
            write_text(path / LOSS, json.dumps(_train(settings, rate, opened, board, path)) + "\n")
    tried = {
        rate: (path, json.loads((path / LOSS).read_text())) for rate, path in paths.items() if (path / LOSS).exists()
    }
    if not tried:
        return None
    rate, (path, found) = min(tried.items(), key=lambda one: float(one[1][1]["loss"]))
    note = f"rate {rate:g}, validated {found['loss']:.3f} nats"
    seconds = sum(float(one["seconds"]) for _, one in tried.values())
    return Made(path.name, lambda: wear(opened.model, path), int(found["numbers"]), seconds, note, True)


def _train(settings: Mapping[str, Any], rate: float, opened: Opened, board: RivalBoard, path: Path) -> dict[str, Any]:
    import peft

    data = Data(Recipe("lookup", board.pairs, seed=board.seed, judged=board.judged, guard=GUARD))
    model, reader, began = opened.model, Reader(opened.tokenizer), time.monotonic()
    with quick_passes(model, half=saves_time(model)):
        care = Care(model, reader, data) if settings.get("held") else None
        with torch.random.fork_rng():
            torch.manual_seed(board.seed)
            adapted = peft.get_peft_model(model, _config(**settings))
        try:
            learned = [parameter for parameter in adapted.parameters() if parameter.requires_grad]
            optimiser = torch.optim.AdamW(learned, lr=rate)
            for step, batch in enumerate(data.batches(model, reader, board.steps)):
                optimiser.zero_grad()
                torch.autograd.backward(batch.loss(model))
                if care is not None:
                    care.hold(step)
                optimiser.step()
            found = care.finish(adapted) if care is not None else {}
            with torch.no_grad():
                losses = [float(batch.loss(model)) for batch in data.validation(model, reader)]
            adapted.save_pretrained(path)
        finally:
            adapted.unload()
    numbers = sum(parameter.numel() for parameter in learned)
    about = {"loss": sum(losses) / len(losses), "numbers": numbers, "seconds": time.monotonic() - began}
    return about | found


class Care:
    """What holds an adapter: drift and harm in the loss by the rule of a calibration, and the way back in the end."""

    def __init__(self, model: nn.Module, reader: Reader, data: Data) -> None:
        self.model, self.settings, self.weight = model, Settings(), FIRST_WEIGHT
        learned, validated = data.guard(reader)
        self.drift, self.guard = Drift(model, data.prose(reader, "train")), Guard(model, learned)
        judged = Guard(model, [[group] for group in validated])
        self.judges = Drift(model, data.prose(reader, "validation")), judged

    def hold(self, step: int) -> None:
        """Add the gradients of drift and harm to those of the task."""
        drift = hold_still(self.model, self.drift, self.guard, step, self.weight)
        if reads_prose(self.guard, step):
            self.weight = change_weight(self.weight, float(drift), self.settings.budget)

    @torch.no_grad()
    def finish(self, adapted: nn.Module) -> dict[str, float]:
        """Shorten the adapter until validation finds it within the budget and the limit on harm; say what it finds.

        One that is not within after TRIES is taken back altogether.
        """
        ups = [parameter for name, parameter in adapted.named_parameters() if "lora_B" in name]
        found = self._measure()
        for tried in range(TRIES):
            excess = found.excess(self.settings)
            if excess <= 1.0:
                break
            for parameter in ups:
                parameter.mul_(BACK / excess if tried < TRIES - 1 else 0.0)
            found = self._measure()
        return {"drift": found.drift, "harm": found.harm}

    def _measure(self) -> Candidate:
        drift, guard = self.judges
        return Candidate(0.0, drift.worst(self.model), guard.harms(self.model), [])


@contextmanager
def wear(model: Any, path: Path) -> Iterator[None]:
    """Put an adapter on a model, in place, for the length of the block."""
    import peft

    worn = peft.PeftModel.from_pretrained(model, str(path))
    worn.eval()
    try:
        yield
    finally:
        worn.unload()


def _config(kind: str, rank: int = 0, targets: tuple[str, ...] = (), held: bool = False) -> Any:
    import peft

    if kind == "ia3":
        return peft.IA3Config(task_type="CAUSAL_LM")  # PEFT's own choice of modules for the family
    return peft.LoraConfig(task_type="CAUSAL_LM", r=rank, lora_alpha=2 * rank, target_modules=list(targets))
