"""The algorithms by name: 24 of the 30 of CLRS-Text.

The other six are articulation points, bridges, strongly connected components, segments intersect, Graham's scan and
Jarvis' march.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from strop._checks import require_known
from strop.studies.clrs.text import dynamic, graphs, greedy, inputs, searching, sorting
from strop.studies.clrs.text.algorithm import Algorithm, Inputs

if TYPE_CHECKING:
    from torch import Generator

MOST = (4, 5, 10, 11, 12, 15, 19, 23, 28, 31)
"""The sizes on which the paper trains, of most algorithms."""
FEW = (4, 5, 10)

_KEYS = (("key",), ("pred",), inputs.draw_keys)
_STRINGS = ("string", "key")
_ROOTED = (("s", "A"), ("pi",))


def _rooted(draw: Callable[..., Inputs], size: int, generator: Generator, **how: Any) -> Inputs:
    return inputs.with_source(draw(size, generator, **how), generator)


_weighted = partial(_rooted, inputs.draw_graph)

_ALL = (
    Algorithm("insertion_sort", *_KEYS, sorting.insertion_sort, MOST),
    Algorithm("bubble_sort", *_KEYS, sorting.bubble_sort, FEW),
    Algorithm("heapsort", *_KEYS, sorting.heapsort, FEW),
    Algorithm("quicksort", *_KEYS, sorting.quicksort, FEW),
    Algorithm("minimum", ("key",), ("min",), inputs.draw_keys, searching.find_minimum, MOST),
    Algorithm("binary_search", ("key", "target"), ("return",), inputs.draw_search, searching.binary_search, MOST),
    Algorithm("quickselect", ("key",), ("median",), inputs.draw_keys, searching.quickselect, MOST),
    Algorithm("find_maximum_subarray_kadane", ("key",), ("start", "end"), inputs.draw_signed_keys,
              searching.find_maximum_subarray, MOST),
    Algorithm("naive_string_matcher", _STRINGS, ("match",), inputs.draw_needle, searching.match_naively, MOST, 3),
    Algorithm("kmp_matcher", _STRINGS, ("match",), inputs.draw_needle, searching.match_kmp, MOST, 3),
    Algorithm("lcs_length", _STRINGS, ("b",), inputs.draw_two_strings, dynamic.lcs_length, FEW),
    Algorithm("matrix_chain_order", ("p",), ("s",), inputs.draw_sides, dynamic.matrix_chain_order, FEW),
    Algorithm("optimal_bst", ("p", "q"), ("root",), inputs.draw_search_tree, dynamic.optimal_search_tree, FEW),
    Algorithm("activity_selector", ("s", "f"), ("selected",), inputs.draw_activities, greedy.select_activities, MOST),
    Algorithm("task_scheduling", ("d", "w"), ("selected",), inputs.draw_tasks, greedy.schedule_tasks, MOST),
    Algorithm("bfs", *_ROOTED, partial(_weighted, weighted=False), graphs.breadth_first, MOST),
    Algorithm("dfs", ("A",), ("pi",), inputs.draw_directed, graphs.depth_first, MOST[:8]),
    Algorithm("topological_sort", ("A",), ("topo", "topo_head"), partial(inputs.draw_directed, acyclic=True),
              graphs.topological_sort, MOST[:8]),
    Algorithm("dag_shortest_paths", *_ROOTED, partial(_rooted, inputs.draw_directed, acyclic=True, weighted=True),
              graphs.dag_shortest_paths, MOST[:7]),
    Algorithm("bellman_ford", *_ROOTED, _weighted, graphs.bellman_ford, MOST),
    Algorithm("dijkstra", *_ROOTED, _weighted, graphs.dijkstra, MOST[:9]),
    Algorithm("mst_prim", *_ROOTED, _weighted, graphs.prim, MOST[:9]),
    Algorithm("mst_kruskal", ("A",), ("in_mst",), partial(inputs.draw_graph, p=0.2), graphs.kruskal, FEW),
    Algorithm("floyd_warshall", ("A",), ("Pi",), inputs.draw_graph, graphs.floyd_warshall, FEW),
)  # fmt: skip

ALGORITHMS = {algorithm.name: algorithm for algorithm in _ALL}
"""Every algorithm that strop has, by its name in CLRS."""


def find_algorithm(name: str) -> Algorithm:
    """Return an algorithm by its name.

    Args:
        name: as CLRS has it, such as quickselect.

    Examples:
        >>> from strop.studies.clrs.text import find_algorithm
        >>> find_algorithm("quicksort").sizes
        (4, 5, 10)
    """
    require_known("algorithm", name, ALGORITHMS)
    return ALGORITHMS[name]
