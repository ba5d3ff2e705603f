"""What a training step of the arena's models costs: processor time of one thread, the median of a few steps.

    python benchmarks/small_models.py              # the two tables of docs/tasks.md

A step is forward, loss, backward and AdamW. The reader has 128 sets of 16 items, the decoder 64 sequences of 64 tokens.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

import strop
from strop import normalisers as rules
from strop.normalisers import Normaliser
from strop.studies.networks import Decoder, DecoderConfig, SetReader, SetReaderConfig
from strop.studies.problems import Problems, SetTask, find_problem

ROUNDS = 5
Make = Callable[[], Normaliser]


def makers(heads: int, head_dim: int, length: int) -> dict[str, Make]:
    """One or more of every family."""
    return {
        "softmax": strop.normalisers.Softmax,
        "adaptive": strop.normalisers.AdaptiveTemperature,
        "ssmax": lambda: strop.normalisers.SSMax(heads),
        "qassmax": lambda: strop.normalisers.QASSMax(heads, head_dim),
        "sink": lambda: strop.normalisers.LearnedSink(heads),
        "sparsemax": strop.normalisers.Sparsemax,
        "entmax15": strop.normalisers.Entmax15,
        "entmax, α learned": lambda: strop.normalisers.Entmax(1.5, learnable=True),
        "asentmax": lambda: strop.normalisers.ASEntmax(heads, head_dim),
        "top_k": lambda: strop.normalisers.TopK(8),
        "sigmoid": lambda: rules.Sigmoid(length),
        "softpick": rules.Softpick,
        "linear": rules.Linear,
        "stick_breaking": rules.StickBreaking,
        "tra": lambda: rules.TRA(heads, head_dim),
        "selective": rules.Selective,
        "differential": lambda: rules.Differential(heads),
        "multi_token": lambda: rules.MultiToken(heads),
    }


def milliseconds(work: Callable[[], object]) -> float:
    """Median processor time of this thread."""
    work()
    times = []
    for _ in range(ROUNDS):
        start = time.thread_time()
        work()
        times.append(time.thread_time() - start)
    return sorted(times)[ROUNDS // 2] * 1e3


def step(model: nn.Module, problems: Problems) -> Callable[[], object]:
    """One step of training."""
    optimiser = torch.optim.AdamW(model.parameters(), fused=True)

    def work() -> None:
        loss: Tensor = F.cross_entropy(model(*problems.arguments), problems.answers)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return work


def reader(make: Make, width: int) -> float:
    """A step of the reader on max retrieval."""
    task, draw = find_problem("max_retrieval"), Generator().manual_seed(0)
    assert isinstance(task, SetTask)
    model = SetReader(SetReaderConfig(task.features, task.classes, width), make(), draw)
    return milliseconds(step(model, task.sample(128, 16, draw)))


def decoder(make: Make, positions: str) -> float:
    """A step of the decoder on flip-flops."""
    task, draw = find_problem("flipflop"), Generator().manual_seed(0)
    if positions == "alibi" and not make().additive:
        return float("nan")
    model = Decoder(DecoderConfig(task.classes, positions=positions), make, draw)
    return milliseconds(step(model, task.sample(64, 32, draw)))


def main() -> None:
    """Print one row a normaliser."""
    torch.set_num_threads(1)
    print("| normaliser | reader 64 | reader 128 | decoder rope | decoder alibi |\n|---|---|---|---|---|")
    for name in makers(4, 16, 64):
        row = []
        for width in (64, 128):
            alone = name not in ("selective", "differential", "multi_token")  # these mix rows or heads
            row.append(reader(makers(1, width, 16)[name], width) if alone else float("nan"))
        row += [decoder(makers(4, 16, 64)[name], positions) for positions in ("rope", "alibi")]
        cells = ("–" if ms != ms else f"{ms:.1f}" for ms in row)
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
