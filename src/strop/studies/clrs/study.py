"""What takes part in the CLRS-Text study and how much work it is. Plain values; torch loads when one is made."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from strop._checks import require, require_distinct, require_known, require_number
from strop.studies.clrs.configs import ClrsTraining, ClrsTrial, DecoderShape, Lesson, LoraShape, TokenBudget

ARMS = {
    "softmax": ("softmax", "softmax"),
    "adaptive": ("adaptive", "adaptive"),
    "softmax>adaptive": ("softmax", "adaptive"),
    "ssmax": ("ssmax", "ssmax"),
    "softmax>edge": ("softmax", "edge"),
    "softmax>edge-larger": ("softmax", "edge-larger"),
    "softmax>adaptive@prompt": ("softmax", "adaptive@prompt"),
    "softmax>adaptive@first": ("softmax", "adaptive@first"),
    "softmax>adaptive@later": ("softmax", "adaptive@later"),
}
"""Arm → what it is trained with, what it is tested with. edge-larger is calibrated beyond the training sizes.

Those with an @ sharpen some rows alone: the prompt's, those that begin a value, those of later digits.
"""

LISTS = (2, 3, 4, 5, 8, 10)
"""Training sizes of lists: the paper's 4, 5 and 10 with smaller ones, from which small models learn sooner."""
SEEN = (4, 5)
"""Sizes of training that are tested, beside the largest: the paper's."""
SIZES = {
    **dict.fromkeys(("naive_string_matcher", "kmp_matcher"), LISTS[1:]),
    **dict.fromkeys(("bfs", "dfs", "topological_sort", "lcs_length", "matrix_chain_order"), LISTS[:5]),
    **dict.fromkeys(("mst_kruskal", "dijkstra", "mst_prim", "bellman_ford", "dag_shortest_paths"), LISTS[:4]),
    **dict.fromkeys(("floyd_warshall", "optimal_bst"), LISTS[:4]),
}
"""Training sizes; of the other algorithms LISTS. Matrices are long: size 10 with numbers in it takes 300 tokens."""

QUICK: dict[str, Any] = {
    "algorithms": ("minimum", "bubble_sort"),
    "seeds": 1,
    "rates": (3e-3,),
    "budget": TokenBudget(steps=60, tokens=1_024, parts=2, warmup=10),
    "shape": DecoderShape(width=48, layers=2),
    "problems": 32,
    "edge_steps": 10,
}
"""A tiny study. Its models have learned next to nothing; it shows the way, not the result."""

LORA: dict[str, Any] = {
    "algorithms": ("minimum", "insertion_sort"),
    "arms": ("softmax", "adaptive", "softmax>adaptive", "softmax>edge"),
    "seeds": 1,
    "rates": (1e-3,),
    "budget": TokenBudget(steps=100, tokens=1_024, parts=2, warmup=10, optimiser="adamw"),
    "shape": LoraShape(),
    "sizes": (4, 5, 8),
    "problems": 64,
    "edge_steps": 20,
}
"""The study of a pretrained model."""

DRAWN: dict[str, Any] = {
    "algorithms": (
        "minimum", "binary_search", "insertion_sort", "bubble_sort", "heapsort", "quicksort",
        "naive_string_matcher", "bfs", "mst_kruskal",
    ),
    "arms": ("softmax", "adaptive", "softmax>adaptive", "softmax>edge", "softmax>edge-larger"),
    "rates": (5e-3,),
    "budget": TokenBudget(steps=900, products="float32"),
    "shape": DecoderShape(spread=1_024),
    "problems": 64,
}  # fmt: skip
"""The study with drawn positions: three times as many places as the longest test has tokens, one rate for all arms."""


@dataclass(frozen=True)
class ClrsStudy:
    """What takes part, and how much work it is. One model an arm and seed learns all algorithms, as in the paper.

    Args:
        algorithms: names of algorithms, keys of `strop.studies.clrs.text.ALGORITHMS`.
        arms: names of arms: trained with one normaliser, tested with the same or, after >, another.
        seeds: models of each arm.
        rates: learning rates to choose from, by the validation loss of seed 0 at training sizes.
        sweep_steps: steps of a training that tries a rate, at most those of the budget.
        budget: what one training may use.
        shape: of a decoder trained from scratch, or of low-rank changes to a pretrained model.
        sizes: training sizes of all algorithms; by default each has its own.
        problems: questions a size.
        edge_steps: steps of the calibration of an edge.

    Examples:
        >>> from strop.studies.clrs import ClrsStudy
        >>> study = ClrsStudy(algorithms=("heapsort",), arms=("softmax", "softmax>adaptive"))
        >>> study.train_sizes("heapsort"), study.test_sizes("heapsort")
        ((2, 3, 4, 5, 8, 10), (4, 5, 6, 10, 13, 15, 20))
    """

    algorithms: tuple[str, ...] = (
        "minimum", "binary_search", "quickselect", "insertion_sort", "bubble_sort", "heapsort", "quicksort",
        "activity_selector", "task_scheduling", "naive_string_matcher", "bfs", "lcs_length", "mst_kruskal",
    )  # fmt: skip
    arms: tuple[str, ...] = tuple(ARMS)
    seeds: int = 3
    rates: tuple[float, ...] = (5e-3, 1e-2)
    sweep_steps: int = 500
    budget: TokenBudget = field(default_factory=TokenBudget)
    shape: DecoderShape | LoraShape = field(default_factory=DecoderShape)
    sizes: tuple[int, ...] | None = None
    problems: int = ClrsTrial.problems
    edge_steps: int = 60

    @classmethod
    def quick(cls, **changes: Any) -> ClrsStudy:
        """A tiny study in a minute; `changes` are fields of your own."""
        return cls(**{**QUICK, **changes})

    @classmethod
    def lora(cls, **changes: Any) -> ClrsStudy:
        """SmolLM2 with low-rank changes on two algorithms, one seed; `changes` are fields of your own."""
        return cls(**{**LORA, **changes})

    @classmethod
    def drawn(cls, **changes: Any) -> ClrsStudy:
        """Decoders with drawn positions; `changes` are fields of your own."""
        return cls(**{**DRAWN, **changes})

    def __post_init__(self) -> None:
        for name in ("algorithms", "arms", "rates"):
            require(bool(getattr(self, name)), f"{name} must hold one or more", "none", "Leave it out for the default")
            require_distinct(name, getattr(self, name))
        for arm in self.arms:
            require_known("arm", arm, ARMS)
        for rate in self.rates:
            require_number("rates", rate, above=0)
        for name in ("seeds", "problems", "edge_steps", "sweep_steps"):
            require(getattr(self, name) >= 1, f"{name} must be at least 1", getattr(self, name))
        from strop.studies.clrs.text.catalogue import ALGORITHMS

        for algorithm in self.algorithms:
            require_known("algorithm", algorithm, ALGORITHMS)

    def train_sizes(self, algorithm: str) -> tuple[int, ...]:
        """Sizes that are trained on."""
        return self.sizes or SIZES.get(algorithm, LISTS)

    def test_sizes(self, algorithm: str) -> tuple[int, ...]:
        """Three sizes seen, halfway in the widest gap between, 1¼, 1½ and 2 times the largest."""
        seen = self.train_sizes(algorithm)
        low, high = max(itertools.pairwise(seen), key=lambda pair: pair[1] - pair[0], default=(seen[0], seen[0]))
        some = {size for size in seen if size in SEEN} or {seen[0]}
        return tuple(sorted({*some, (low + high) // 2, seen[-1], *self.beyond_sizes(algorithm)}))

    def beyond_sizes(self, algorithm: str) -> tuple[int, int, int]:
        """Sizes larger than any that was trained on."""
        most = max(self.train_sizes(algorithm))
        return -(-5 * most // 4), -(-3 * most // 2), 2 * most

    def region(self, algorithm: str, size: int) -> str:
        """Whether a size was seen, lies between those seen, or beyond."""
        seen = self.train_sizes(algorithm)
        return "seen" if size in seen else "between" if size < max(seen) else "beyond"

    def training(self, arm: str, rate: float, seed: int) -> ClrsTraining:
        """One training run."""
        return ClrsTraining(self._lessons(self.train_sizes), ARMS[arm][0], rate, seed, self.budget, self.shape)

    def sweep(self, arm: str, rate: float) -> ClrsTraining:
        """A shorter training run that tries a rate."""
        budget = replace(self.budget, steps=min(self.sweep_steps, self.budget.steps))
        return replace(self.training(arm, rate, 0), budget=budget)

    def trial(self, arm: str, rate: float, seed: int) -> ClrsTrial:
        """One trial of a trained model."""
        training, tested = self.training(arm, rate, seed), ARMS[arm][1]
        trial = ClrsTrial(training, tested, self._lessons(self.test_sizes), self.problems)
        if not tested.startswith("edge"):
            return trial
        larger = self._lessons(lambda algorithm: self.beyond_sizes(algorithm)[:1])
        edge = larger if tested == "edge-larger" else training.lessons
        return replace(trial, edge_lessons=edge, edge_steps=self.edge_steps)

    def _lessons(self, sizes: Callable[[str], tuple[int, ...]]) -> tuple[Lesson, ...]:
        return tuple(Lesson(algorithm, sizes(algorithm)) for algorithm in self.algorithms)
