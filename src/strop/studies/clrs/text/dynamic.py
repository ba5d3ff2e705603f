"""Dynamic programming. Sums are made in a fixed order: where two ways cost the same, the last bit decides."""

from __future__ import annotations

from strop.studies.clrs.text.algorithm import Vector
from strop.studies.clrs.text.searching import split_strings


def lcs_length(string: Vector, key: Vector) -> tuple[Vector]:
    """Where each cell of the table of longest common subsequences comes from: 0 both, 1 above, 2 left.

    The table stands in the rows of the first string and the columns of the second; every other cell is −1.
    """
    x, y = split_strings(string, key)
    length = [[0] * (len(y) + 1) for _ in range(len(x) + 1)]
    origin: Vector = [[-1] * len(key) for _ in key]
    for i, a in enumerate(x, 1):
        for j, b in enumerate(y, 1):
            above, left = length[i - 1][j], length[i][j - 1]
            length[i][j] = length[i - 1][j - 1] + 1 if a == b else max(above, left)
            origin[i - 1][len(x) + j - 1] = 0 if a == b else 1 if above >= left else 2
    return (origin,)


def matrix_chain_order(p: Vector) -> tuple[Vector]:
    """The best split k of each product of matrices i … j, in rounds.

    A round looks at every product with the costs of the round before, over the splits whose two parts are known by
    then, and changes a split only for a smaller cost. It ends when a round changes no cost. So, of splits that cost the
    same, it keeps the one met first, which need not be the leftmost.
    """
    size = len(p)
    cost: Vector = [[0.0] * size for _ in p]
    split: Vector = [[0] * size for _ in p]
    known = [[i == j and i > 0 for j in range(size)] for i in range(size)]
    while True:
        before, known_before = [list(row) for row in cost], [list(row) for row in known]
        for i in range(1, size):
            for j in range(i + 1, size):
                for k in range(i, j):
                    if known_before[i][k] and known_before[k + 1][j]:
                        found = before[i][k] + before[k + 1][j] + p[i - 1] * p[k] * p[j]
                        if not known[i][j] or found < cost[i][j]:
                            cost[i][j], split[i][j] = found, k
                        known[i][j] = True
        if before == cost:
            return (split,)


def optimal_search_tree(p: Vector, q: Vector) -> tuple[Vector]:
    """The best root of each stretch i … j of keys; the first of those that cost the same."""
    size = len(q)
    cost, weight = ([[q[i] if i == j else 0.0 for j in range(size)] for i in range(size)] for _ in range(2))
    root: Vector = [[0] * size for _ in q]
    for length in range(1, size):
        for i in range(size - length):
            j = i + length
            weight[i][j] = weight[i][j - 1] + p[j - 1] + q[j]
            costs = [cost[i][r] + cost[r + 1][j] + weight[i][j] for r in range(i, j)]
            cost[i][j] = min(costs)
            root[i][j] = i + costs.index(cost[i][j])
    return (root,)
