"""PEFT's LoRA and (IA)³ on the board's data: what a practitioner would do instead.

Plain AdamW on the answers alone, no budget, no guard; α = 2·rank. Of several learning rates the one with the lowest
validation loss is kept. Each rate is trained once and kept as PEFT's own adapter folder.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from strop.calibration.data import Data
from strop.calibration.settings import Recipe
from strop.records import write_text
from strop.records.addresses import short_id
from strop.studies.rivals.board import RivalBoard
from strop.studies.rivals.made import Made
from strop.tasks.answers import Reader

if TYPE_CHECKING:
    from strop.pretrained.load import Opened

LOSS = "validated.json"
"""Written last: what validation said, and how long the training took."""


def make_adapter(
    name: str, settings: Mapping[str, Any], opened: Opened, board: RivalBoard, folder: Path, learn: bool
) -> Made | None:
    """Train with every rate, or read what was trained; return the best on validation."""
    paths = {rate: folder / f"{name}-{short_id({**board.learned(), **settings, 'rate': rate})}" for rate in board.rates}
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

    data = Data(Recipe("lookup", board.pairs, seed=board.seed, judged=board.judged))
    reader, began = Reader(opened.tokenizer), time.monotonic()
    with torch.random.fork_rng():
        torch.manual_seed(board.seed)
        adapted = peft.get_peft_model(opened.model, _config(**settings))
    try:
        learned = [parameter for parameter in adapted.parameters() if parameter.requires_grad]
        optimiser = torch.optim.AdamW(learned, lr=rate)
        for batch in data.batches(opened.model, reader, board.steps):
            optimiser.zero_grad()
            torch.autograd.backward(batch.loss(opened.model))
            optimiser.step()
        with torch.no_grad():
            losses = [float(batch.loss(opened.model)) for batch in data.validation(opened.model, reader)]
        adapted.save_pretrained(path)
    finally:
        adapted.unload()
    numbers = sum(parameter.numel() for parameter in learned)
    return {"loss": sum(losses) / len(losses), "numbers": numbers, "seconds": time.monotonic() - began}


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


def _config(kind: str, rank: int = 0, targets: tuple[str, ...] = ()) -> Any:
    import peft

    if kind == "ia3":
        return peft.IA3Config(task_type="CAUSAL_LM")  # PEFT's own choice of modules for the family
    return peft.LoraConfig(task_type="CAUSAL_LM", r=rank, lora_alpha=2 * rank, target_modules=list(targets))
