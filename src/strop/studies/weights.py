"""What every trained model of a study shares: the name of its file, and the one thread that makes its bytes repeat."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

WEIGHTS_FILE = "weights.safetensors"


@contextmanager
def one_thread() -> Iterator[None]:
    """One torch thread inside the block: another number adds in another order, and the bytes would differ."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
