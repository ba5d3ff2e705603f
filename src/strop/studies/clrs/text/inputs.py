"""What problems are made of: numbers, strings and graphs, drawn from a `torch.Generator`.

Numbers are uniform and cut to three decimals. An undirected graph has an edge where both of two draws say so, so its
density is p²; a node has an edge to itself with probability p. The weight of an undirected edge is √(uv + 0.001) for
uniform u and v, that of a directed one is uniform; a weight that is cut to 0 is no edge.
"""

from __future__ import annotations

import math

import torch
from torch import Generator

from strop.studies.clrs.text.algorithm import Inputs, Vector

DECIMALS = 1000
"""Numbers are whole multiples of 1/DECIMALS."""
LETTERS = 4


def draw_numbers(count: int, generator: Generator) -> Vector:
    """Numbers from 0 to 1."""
    return [truncate(u) for u in torch.rand(count, dtype=torch.float64, generator=generator).tolist()]


def truncate(value: float) -> float:
    """Three decimals; the rest is cut off, not rounded. Zero keeps its sign."""
    return math.copysign(math.trunc(value * DECIMALS) / DECIMALS, value)


def draw_whole(below: int, count: int, generator: Generator) -> Vector:
    """Whole numbers from 0 to below − 1."""
    found: Vector = torch.randint(below, (count,), generator=generator).tolist()
    return found


def draw_keys(size: int, generator: Generator) -> Inputs:
    """A list to sort or to search."""
    return {"key": draw_numbers(size, generator)}


def draw_signed_keys(size: int, generator: Generator) -> Inputs:
    """Numbers from −1 to 1."""
    drawn = torch.rand(size, dtype=torch.float64, generator=generator)
    return {"key": [truncate(2.0 * u - 1.0) for u in drawn.tolist()]}


def draw_search(size: int, generator: Generator) -> Inputs:
    """A sorted list, and what to look for."""
    *key, target = draw_numbers(size + 1, generator)
    return {"key": sorted(key), "target": target}


def draw_sides(size: int, generator: Generator) -> Inputs:
    """Sides of matrices in a chain."""
    return {"p": draw_numbers(size, generator)}


def draw_activities(size: int, generator: Generator) -> Inputs:
    """Starts and finishes."""
    one, other = draw_numbers(size, generator), draw_numbers(size, generator)
    return {"s": list(map(min, one, other)), "f": list(map(max, one, other))}


def draw_tasks(size: int, generator: Generator) -> Inputs:
    """Deadlines from 1 to size, and values."""
    return {"d": [1 + d for d in draw_whole(size, size, generator)], "w": draw_numbers(size, generator)}


def draw_search_tree(size: int, generator: Generator) -> Inputs:
    """Probabilities p of `size` keys and q of what lies between them; p ends with a zero, so both are as long."""
    drawn = torch.rand(2 * size + 1, dtype=torch.float64, generator=generator).tolist()
    share = [truncate(u / math.fsum(drawn)) for u in drawn]
    return {"p": [*share[:size], 0.0], "q": share[size:]}


def draw_two_strings(size: int, generator: Generator) -> Inputs:
    """Two strings that are `size` long together; the first has the odd letter."""
    first = size - size // 2
    return _join(draw_whole(LETTERS, first, generator), draw_whole(LETTERS, size - first, generator))


def draw_needle(size: int, generator: Generator) -> Inputs:
    """A haystack with a needle of a fifth of the size in it, then the needle."""
    length = max(1, size // 5)
    needle, haystack = draw_whole(LETTERS, length, generator), draw_whole(LETTERS, size - length, generator)
    (at,) = draw_whole(size - 2 * length, 1, generator)
    haystack[at : at + length] = needle
    return _join(haystack, needle)


def _join(first: Vector, second: Vector) -> Inputs:
    return {"string": [0] * len(first) + [1] * len(second), "key": first + second}


def draw_graph(size: int, generator: Generator, p: float = 0.5, *, weighted: bool = True) -> Inputs:
    """An undirected graph as its matrix."""
    edge = torch.rand(size, size, generator=generator) < p
    if not weighted:
        return {"A": (edge & edge.T).long().tolist()}
    drawn = torch.rand(size, size, dtype=torch.float64, generator=generator)
    return {"A": _weigh((edge & edge.T).tolist(), (drawn * drawn.T + 1e-3).sqrt().tolist())}


def draw_directed(size: int, generator: Generator, *, acyclic: bool = False, weighted: bool = False) -> Inputs:
    """A directed graph as its matrix; edges with probability ½, of an acyclic one those along a random order."""
    edge = torch.rand(size, size, generator=generator) < 0.5
    if acyclic:
        order = torch.randint(2**62, (size,), generator=generator).argsort()
        edge = edge.triu(1)[order][:, order]
    if not weighted:
        return {"A": edge.long().tolist()}
    return {"A": _weigh(edge.tolist(), torch.rand(size, size, dtype=torch.float64, generator=generator).tolist())}


def _weigh(edge: Vector, weight: Vector) -> Vector:
    pairs = zip(edge, weight, strict=True)
    return [[truncate(w) if e else 0.0 for e, w in zip(*rows, strict=True)] for rows in pairs]


def with_source(graph: Inputs, generator: Generator) -> Inputs:
    """The graph and a node to start from."""
    (source,) = draw_whole(len(graph["A"]), 1, generator)
    return {"s": source, **graph}
