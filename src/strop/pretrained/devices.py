"""Which device a model is opened on, by the name that a user gives."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from strop._checks import require

if TYPE_CHECKING:
    import torch

SPREAD = "spread"
"""Over all cards, then the processor's memory, then the disk, as accelerate sees fit: for models larger than a card."""

DTYPES = ("auto", "float32", "bfloat16", "float16")


def find_device(name: str) -> torch.device:
    """Return a device by name, or raise naming those that are there; `auto` is a card where there is one."""
    import torch

    there = list_devices()
    spreads = name != SPREAD or find_spec("accelerate") is not None
    require(spreads, f"device {SPREAD} must come with accelerate", "none installed", "pip install accelerate")
    if name in ("auto", SPREAD):
        return torch.device(there[1] if len(there) > 1 else "cpu")
    cards = {card.partition(":")[0] for card in there}
    known = name in there or name in cards
    remedy = f"There are: {', '.join(there)}" + (
        "" if cards > {"cpu"} else f". torch {torch.__version__} finds no card"
    )
    require(known, f"device must be auto, {SPREAD} or one that is there", repr(name), remedy)
    return torch.device(name)


def list_devices() -> list[str]:
    """Return every device that torch can use here: cpu, and cuda:0 … or another kind of card."""
    import torch

    kind = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    count = torch.accelerator.device_count() if kind is not None else 0
    return ["cpu", *(f"{kind.type}:{i}" for i in range(count) if kind is not None)]
