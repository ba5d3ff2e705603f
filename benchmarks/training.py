"""Steps per second of the factorised trainer beside the plain torch loop, in one run on one thread.

python benchmarks/training.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Generator

from strop.studies.networks import Retriever
from strop.studies.retrieval.training.trainer import TrainConfig, Trainer


def plain(config: TrainConfig) -> Callable[[], None]:
    """One step as a tutorial would write it: the plain model, autograd, AdamW."""
    generator = Generator().manual_seed(0)
    model = Retriever(config.model, generator)
    optimiser = torch.optim.AdamW(model.parameters(), lr=config.lr, weight_decay=config.weight_decay)

    def step() -> None:
        size = int(torch.randint(config.sizes[0], config.sizes[1] + 1, (), generator=generator))
        batch = config.task.sample(config.batch, size, generator)
        optimiser.zero_grad()
        out = model(config.task.items(batch.values, batch.classes), batch.query)
        F.cross_entropy(out, batch.target).backward()
        optimiser.step()

    return step


def rate(step: Callable[[], object], steps: int) -> float:
    """Steps per second."""
    for _ in range(20):
        step()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    return steps / (time.perf_counter() - start)


def main() -> None:
    """Interleave the two, so that both see the same machine."""
    torch.set_num_threads(1)
    for sizes in ((5, 16), (16, 16)):
        config = TrainConfig(sizes=sizes)
        slow, fast = plain(config), Trainer(config).advance
        rates = [(rate(slow, 100), rate(fast, 500)) for _ in range(5)]
        a, b = (sorted(column)[2] for column in zip(*rates, strict=True))
        print(f"sizes {sizes}: plain torch {a:.0f} steps/s, factorised {b:.0f} steps/s, {b / a:.1f} times as fast")


if __name__ == "__main__":
    main()
