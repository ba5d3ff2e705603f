"""Graphs as matrices A: A[u][v] is the weight of the edge from u to v, 0 where there is none.

Trees are asked for as the parent of every node; a root, or a node that is not reached, is its own parent.
"""

from __future__ import annotations

from collections.abc import Iterator

from strop.studies.clrs.text.algorithm import Vector


def breadth_first(s: int, A: Vector) -> tuple[Vector]:
    """Level by level from s; of several parents in the level before, the one of least index."""
    parent, level, reached = list(range(len(A))), [s], {s}
    while level:
        found = {v: u for u in sorted(level, reverse=True) for v in neighbours(A, u) if v not in reached}
        for v, u in found.items():
            parent[v] = u
        level = list(found)
        reached |= found.keys()
    return (parent,)


def neighbours(A: Vector, u: int) -> Iterator[int]:
    """Where edges from u lead, in order."""
    return (v for v, weight in enumerate(A[u]) if weight)


def depth_first(A: Vector) -> tuple[Vector]:
    """From every node that is not yet reached, as deep as it goes."""
    parent = list(range(len(A)))
    for _ in _finish_in_order(A, range(len(A)), parent):
        pass
    return (parent,)


def _finish_in_order(A: Vector, starts: range, parent: Vector) -> Iterator[int]:
    """Yield nodes as depth-first search is done with them; write down parents."""
    seen: set[int] = set()
    for start in starts:
        path = [start] if start not in seen else []
        seen.add(start)
        while path:
            onward = next((v for v in neighbours(A, path[-1]) if v not in seen), None)
            if onward is None:
                yield path.pop()
            else:
                parent[onward] = path[-1]
                seen.add(onward)
                path.append(onward)


def topological_sort(A: Vector) -> tuple[Vector, int]:
    """The node that follows each one in the order, the last following itself, and the first node."""
    finished = list(_finish_in_order(A, range(len(A)), list(range(len(A)))))
    after = list(range(len(A)))
    for u, v in zip(finished[1:], finished, strict=False):
        after[u] = v
    return after, finished[-1]


def dag_shortest_paths(s: int, A: Vector) -> tuple[Vector]:
    """Look along every edge once, in topological order from s."""
    order = reversed(list(_finish_in_order(A, range(s, s + 1), list(range(len(A))))))
    parent, distance = list(range(len(A))), {s: 0.0}
    for u in order:
        for v in neighbours(A, u):
            if v not in distance or distance[u] + A[u][v] < distance[v]:
                distance[v], parent[v] = distance[u] + A[u][v], u
    return (parent,)


def bellman_ford(s: int, A: Vector) -> tuple[Vector]:
    """Look along every edge with the distances of the round before, until none gets shorter."""
    parent, distance = list(range(len(A))), {s: 0.0}
    while True:
        before = dict(distance)
        for u in sorted(before):
            for v in neighbours(A, u):
                if v not in distance or before[u] + A[u][v] < distance[v]:
                    distance[v], parent[v] = before[u] + A[u][v], u
        if distance == before:
            return (parent,)


def dijkstra(s: int, A: Vector) -> tuple[Vector]:
    """Always go on from the nearest node; of several, the one of least index."""
    return (_grow_tree(s, A, along=True),)


def prim(s: int, A: Vector) -> tuple[Vector]:
    """Always take the node with the lightest edge to the tree; of several, the one of least index."""
    return (_grow_tree(s, A, along=False),)


def _grow_tree(s: int, A: Vector, *, along: bool) -> Vector:
    """Grow a tree by the cheapest node; its cost is the whole path's if `along`, else that of its last edge."""
    parent, waiting, done = list(range(len(A))), {s: 0.0}, set()
    while waiting:
        u = min(waiting, key=lambda v: (waiting[v], v))
        so_far = waiting.pop(u)
        done.add(u)
        for v in neighbours(A, u):
            cost = so_far + A[u][v] if along else A[u][v]
            if v not in done and (v not in waiting or cost < waiting[v]):
                parent[v], waiting[v] = u, cost
    return parent


def kruskal(A: Vector) -> tuple[Vector]:
    """Take edges by their weight, each that joins two trees; the matrix of those taken."""
    size = len(A)
    tree, taken = list(range(size)), [[0] * size for _ in A]
    edges = [(u, v) for u in range(size) for v in range(u + 1, size) if A[u][v]]
    for u, v in sorted(edges, key=lambda edge: A[edge[0]][edge[1]]):
        if tree[u] != tree[v]:
            taken[u][v] = taken[v][u] = 1
            tree = [tree[v] if name == tree[u] else name for name in tree]
    return (taken,)


def floyd_warshall(A: Vector) -> tuple[Vector]:
    """The node before j on the shortest way from i, for all i and j; i where there is none or it is one edge."""
    nodes = range(len(A))
    distance: list[list[float | None]] = [[A[i][j] if A[i][j] or i == j else None for j in nodes] for i in nodes]
    before = [[i] * len(A) for i in nodes]
    for k in nodes:
        to, onward = [row[k] for row in distance], list(distance[k])
        for i in nodes:
            for j in nodes:
                first, second, found = to[i], onward[j], distance[i][j]
                if first is not None and second is not None and (found is None or first + second < found):
                    distance[i][j], before[i][j] = first + second, before[k][j]
    return (before,)
