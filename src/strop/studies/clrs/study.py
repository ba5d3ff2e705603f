"""What takes part in the CLRS-Text study and how much work it is. Plain values; torch loads when one is made."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from strop._checks import require, require_distinct, require_known, require_number
from strop.studies.clrs.configs import ClrsTraining, ClrsTrial, DecoderShape, LoraShape, TokenBudget

ARMS = {
    "softmax": ("softmax", "softmax"),
    "adaptive": ("adaptive", "adaptive"),
    "softmax>adaptive": ("softmax", "adaptive"),
    "ssmax": ("ssmax", "ssmax"),
    "softmax>edge": ("softmax", "edge"),
    "softmax>edge-larger": ("softmax", "edge-larger"),
}
"""Arm → what it is trained with, what it is tested with. edge-larger is calibrated beyond the training sizes."""

LONG = (4, 5, 10, 11, 12, 15)
"""Training sizes of the paper that fit: of lists."""
SHORT = (4, 5, 10)
SIZES = {
    "minimum": LONG, "quickselect": LONG, "binary_search": LONG, "insertion_sort": LONG, "activity_selector": LONG,
    "task_scheduling": LONG, "find_maximum_subarray_kadane": LONG, "naive_string_matcher": LONG, "kmp_matcher": LONG,
}  # fmt: skip
"""Training sizes; of the other algorithms they are SHORT."""

QUICK: dict[str, Any] = {
    "algorithms": ("minimum", "bubble_sort"),
    "seeds": 1,
    "rates": (3e-3,),
    "budget": TokenBudget(steps=60, tokens=1_024, warmup=10),
    "shape": DecoderShape(width=48, layers=2),
    "problems": 32,
    "edge_steps": 10,
}
"""What `--quick` sets: minutes. Its models have learned next to nothing; it shows the way, not the result."""


@dataclass(frozen=True)
class ClrsStudy:
    """What takes part, and how much work it is.

    Args:
        algorithms: names of algorithms, keys of `strop.studies.clrs.text.ALGORITHMS`.
        arms: names of arms: trained with one normaliser, tested with the same or, after >, another.
        seeds: models of each arm.
        rates: learning rates to choose from, by the validation loss of seed 0 at training sizes.
        budget: what one training may use.
        shape: of a decoder trained from scratch, or of low-rank changes to a pretrained model.
        problems: questions a size.
        edge_steps: steps of the calibration of an edge.

    Examples:
        >>> from strop.studies.clrs import ClrsStudy
        >>> study = ClrsStudy(algorithms=("heapsort",), arms=("softmax", "softmax>adaptive"))
        >>> study.train_sizes("heapsort"), study.test_sizes("heapsort")
        ((4, 5, 10), (4, 5, 7, 10, 13, 15, 20))
    """

    algorithms: tuple[str, ...] = (
        "minimum", "quickselect", "binary_search", "insertion_sort", "bubble_sort", "heapsort",
        "activity_selector", "bfs", "mst_kruskal", "lcs_length",
    )  # fmt: skip
    arms: tuple[str, ...] = tuple(ARMS)
    seeds: int = 3
    rates: tuple[float, ...] = (1e-3, 3e-3)
    budget: TokenBudget = field(default_factory=TokenBudget)
    shape: DecoderShape | LoraShape = field(default_factory=DecoderShape)
    problems: int = ClrsTrial.problems
    edge_steps: int = 60

    @classmethod
    def quick(cls, **changes: Any) -> ClrsStudy:
        """A tiny study in minutes; `changes` are fields of your own."""
        return cls(**{**QUICK, **changes})

    def __post_init__(self) -> None:
        for name in ("algorithms", "arms", "rates"):
            require(bool(getattr(self, name)), f"{name} must hold one or more", "none", "Leave it out for the default")
            require_distinct(name, getattr(self, name))
        for arm in self.arms:
            require_known("arm", arm, ARMS)
        for rate in self.rates:
            require_number("rates", rate, above=0)
        for name in ("seeds", "problems", "edge_steps"):
            require(getattr(self, name) >= 1, f"{name} must be at least 1", getattr(self, name))
        from strop.studies.clrs.text.catalogue import ALGORITHMS

        for algorithm in self.algorithms:
            require_known("algorithm", algorithm, ALGORITHMS)

    def train_sizes(self, algorithm: str) -> tuple[int, ...]:
        """Sizes that are trained on."""
        return SIZES.get(algorithm, SHORT)

    def test_sizes(self, algorithm: str) -> tuple[int, ...]:
        """Sizes that were seen, those halfway between them, and 1¼, 1½ and 2 times the largest."""
        seen = self.train_sizes(algorithm)
        between = {(a + b) // 2 for a, b in itertools.pairwise(seen) if b - a > 1}
        return tuple(sorted({*seen, *between, *self.beyond_sizes(algorithm)}))

    def beyond_sizes(self, algorithm: str) -> tuple[int, int, int]:
        """Sizes larger than any that was trained on."""
        most = max(self.train_sizes(algorithm))
        return -(-5 * most // 4), -(-3 * most // 2), 2 * most

    def region(self, algorithm: str, size: int) -> str:
        """Whether a size was seen, lies between those seen, or beyond."""
        seen = self.train_sizes(algorithm)
        return "seen" if size in seen else "between" if size < max(seen) else "beyond"

    def training(self, algorithm: str, arm: str, rate: float, seed: int) -> ClrsTraining:
        """One training run."""
        sizes = self.train_sizes(algorithm)
        return ClrsTraining(algorithm, ARMS[arm][0], rate, seed, sizes, self.budget, self.shape)

    def trial(self, algorithm: str, arm: str, rate: float, seed: int) -> ClrsTrial:
        """One trial of a trained model."""
        tested = ARMS[arm][1]
        edge: tuple[int, ...] = ()
        if tested.startswith("edge"):
            larger = tested == "edge-larger"
            edge = (self.beyond_sizes(algorithm)[0],) if larger else self.train_sizes(algorithm)
        training, sizes = self.training(algorithm, arm, rate, seed), self.test_sizes(algorithm)
        return ClrsTrial(training, tested, sizes, self.problems, edge, self.edge_steps if edge else 0)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Every algorithm with every arm."""
        return ((algorithm, arm) for algorithm in self.algorithms for arm in self.arms)
