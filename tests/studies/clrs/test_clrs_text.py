"""Questions of CLRS-Text: the same bytes from the same seed, answers that are right, text that dm-clrs writes too."""

import hashlib
import json
from itertools import combinations, pairwise, permutations
from pathlib import Path

import pytest
from compare_clrs import BLOCK, SIZES, hash_blocks

from strop.errors import ArgumentError
from strop.studies.clrs.text import ALGORITHMS, Vocabulary, find_algorithm
from strop.studies.problems import stream

GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text())
DM_CLRS = json.loads(Path(__file__).with_name("dm_clrs.json").read_text())


def drawn(name, count=40, sizes=(3, 4, 7, 8)):
    generator = stream("tests", name)
    return [ALGORITHMS[name].draw(sizes[i % len(sizes)], generator) for i in range(count)]


def answer(name, inputs):
    found = ALGORITHMS[name].solve(**inputs)
    return found[0] if len(found) == 1 else found


@pytest.mark.parametrize("name", ALGORITHMS)
def test_same_seed_same_bytes(name):
    generator = stream("golden", name)
    text = "".join(ALGORITHMS[name].sample(size, generator).text for size in (4, 5, 10, 16))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == GOLDEN[name]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_text_is_that_of_dm_clrs(name):
    """tools/compare_clrs.py had dm-clrs write the same 1,000 questions; here are the first of them."""
    assert (tuple(DM_CLRS["sizes"]), DM_CLRS["block"]) == (SIZES, BLOCK)
    generator, algorithm = stream("dm-clrs", name), ALGORITHMS[name]
    texts = [algorithm.sample(SIZES[i % len(SIZES)], generator).text for i in range(BLOCK)]
    assert list(hash_blocks(texts)) == DM_CLRS["sha256"][name][:1]


@pytest.mark.parametrize("name", ["insertion_sort", "bubble_sort", "heapsort", "quicksort"])
def test_sorting(name):
    for inputs in drawn(name):
        assert answer(name, inputs) == sorted(inputs["key"])


def test_searching():
    for inputs in drawn("minimum"):
        assert answer("minimum", inputs) == inputs["key"].index(min(inputs["key"]))
    for inputs in drawn("quickselect"):
        assert inputs["key"][answer("quickselect", inputs)] == sorted(inputs["key"])[len(inputs["key"]) // 2]
    for inputs in drawn("binary_search"):
        key, target = inputs["key"], inputs["target"]
        assert answer("binary_search", inputs) == min(sum(k < target for k in key), len(key) - 1)
    for inputs in drawn("find_maximum_subarray_kadane"):
        key = inputs["key"]
        best = max(sum(key[i : j + 1]) for i in range(len(key)) for j in range(i, len(key)))
        low, high = answer("find_maximum_subarray_kadane", inputs)
        assert sum(key[low : high + 1]) == pytest.approx(best)


@pytest.mark.parametrize("name", ["naive_string_matcher", "kmp_matcher"])
def test_matching(name):
    for inputs in drawn(name, sizes=(4, 9, 16, 21)):
        letters, first = "".join(map(str, inputs["key"])), inputs["string"].count(0)
        assert answer(name, inputs) == letters[:first].find(letters[first:])


def test_lcs_by_walking_back():
    for inputs in drawn("lcs_length"):
        origin, first = answer("lcs_length", inputs), inputs["string"].count(0)
        x, y = inputs["key"][:first], inputs["key"][first:]
        i, j, found = first - 1, len(y) - 1, 0
        while i >= 0 and j >= 0:
            step = origin[i][first + j]
            assert (step == 0) == (x[i] == y[j])
            found, i, j = found + (step == 0), i - (step != 2), j - (step != 1)
        longest = max(n for n in range(len(y) + 1) if any(_within(p, x) for p in combinations(y, n)))
        assert found == longest


def _within(part, whole):
    rest = iter(whole)
    return all(letter in rest for letter in part)


def test_chains_and_trees_cost_least():
    def chain(split, p, i, j):
        if i == j:
            return 0.0
        k = split[i][j]
        return chain(split, p, i, k) + chain(split, p, k + 1, j) + p[i - 1] * p[k] * p[j]

    def least(p, i, j):
        return min((least(p, i, k) + least(p, k + 1, j) + p[i - 1] * p[k] * p[j] for k in range(i, j)), default=0.0)

    def tree(root, p, q, i, j):
        share = sum(p[i:j]) + sum(q[i : j + 1])
        return share if i == j else share + tree(root, p, q, i, root[i][j]) + tree(root, p, q, root[i][j] + 1, j)

    def least_tree(p, q, i, j):
        share = sum(p[i:j]) + sum(q[i : j + 1])
        return share + min((least_tree(p, q, i, r) + least_tree(p, q, r + 1, j) for r in range(i, j)), default=0.0)

    for inputs in drawn("matrix_chain_order", 12):
        p, last = inputs["p"], len(inputs["p"]) - 1
        assert chain(answer("matrix_chain_order", inputs), p, 1, last) == pytest.approx(least(p, 1, last))
    for inputs in drawn("optimal_bst", 8, (3, 4, 5)):
        p, q = inputs["p"][:-1], inputs["q"]
        found = tree(answer("optimal_bst", inputs), p, q, 0, len(p))
        assert found == pytest.approx(least_tree(p, q, 0, len(p)))


def test_greedy_choices_are_the_largest():
    for inputs in drawn("activity_selector"):
        s, f, n = inputs["s"], inputs["f"], len(inputs["s"])

        def fits(chosen, s=s, f=f):
            return all(s[b] >= f[a] for a, b in pairwise(chosen))

        by_finish = sorted(range(n), key=lambda i, f=f: f[i])
        most = max(k for k in range(n + 1) if any(map(fits, combinations(by_finish, k))))
        taken = answer("activity_selector", inputs)
        assert sum(taken) == most
        assert fits([i for i in by_finish if taken[i]])
    for inputs in drawn("task_scheduling"):
        taken = answer("task_scheduling", inputs)
        for rank, i in enumerate(sorted(range(len(taken)), key=lambda i, w=inputs["w"]: -w[i])):
            before = sorted(range(len(taken)), key=lambda i, w=inputs["w"]: -w[i])[:rank]
            assert taken[i] == (sum(taken[j] for j in before) < inputs["d"][i])


def distances(A, hops=False):
    """All shortest ways by brute force: powers of the matrix in (min, +)."""
    n, far = len(A), float("inf")
    weight = [[0.0 if i == j else (1.0 if hops else A[i][j]) if A[i][j] else far for j in range(n)] for i in range(n)]
    out = weight
    for _ in range(n):
        out = [[min(out[i][k] + weight[k][j] for k in range(n)) for j in range(n)] for i in range(n)]
    return out


@pytest.mark.parametrize("name", ["bfs", "bellman_ford", "dijkstra", "dag_shortest_paths"])
def test_trees_of_shortest_ways(name):
    for inputs in drawn(name):
        A, s, parent = inputs["A"], inputs["s"], answer(name, inputs)
        far = distances(A, hops=name == "bfs")[s]
        for v, u in enumerate(parent):
            if v == s or far[v] == float("inf"):
                assert u == v
            else:
                assert A[u][v]
                assert far[u] + (1 if name == "bfs" else A[u][v]) == pytest.approx(far[v])


def test_floyd_warshall_gives_the_node_before():
    for inputs in drawn("floyd_warshall", 20):
        A, before, far = inputs["A"], answer("floyd_warshall", inputs), distances(inputs["A"])
        for i, j in permutations(range(len(A)), 2):
            k = before[i][j]
            if far[i][j] < float("inf"):
                assert far[i][k] + A[k][j] == pytest.approx(far[i][j])
            else:
                assert k == i


def test_spanning_trees_weigh_the_same():
    for inputs in drawn("mst_prim"):
        A, s, parent = inputs["A"], inputs["s"], answer("mst_prim", inputs)
        part = [v for v in range(len(A)) if v == s or parent[v] != v]
        inside = [[A[u][v] for v in part] for u in part]
        taken = answer("mst_kruskal", {"A": inside})
        prim = sum(A[parent[v]][v] for v in part if v != s)
        kruskal = sum(inside[u][v] for u in range(len(part)) for v in range(u) if taken[u][v])
        assert sum(map(sum, taken)) == 2 * (len(part) - 1)
        assert kruskal == pytest.approx(prim)


def test_depth_first_trees_have_no_cross_edges_forward():
    for inputs in drawn("dfs"):
        A, parent = inputs["A"], answer("dfs", inputs)

        def above(v, parent=parent):
            out = {v}
            while parent[v] != v:
                v = parent[v]
                out.add(v)
            return out

        assert all(A[parent[v]][v] for v in range(len(A)) if parent[v] != v)
        order = [u for start in range(len(A)) if parent[start] == start for u in _preorder(parent, start)]
        place = {u: i for i, u in enumerate(order)}
        for u, v in permutations(range(len(A)), 2):
            if A[u][v] and place[v] > place[u]:
                assert u in above(v)


def _preorder(parent, u):
    return [u, *(x for v in range(len(parent)) if v != u and parent[v] == u for x in _preorder(parent, v))]


def test_topological_order():
    for inputs in drawn("topological_sort"):
        A, (after, at) = inputs["A"], answer("topological_sort", inputs)
        order = [at]
        while after[at] != at:
            at = after[at]
            order.append(at)
        assert sorted(order) == list(range(len(A)))
        assert all(order.index(u) < order.index(v) for u in range(len(A)) for v in range(len(A)) if A[u][v])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_tokens_give_the_text_back(name):
    vocabulary, question = Vocabulary(ALGORITHMS[name]), ALGORITHMS[name].sample(12, stream("tokens", name))
    prompt, reply = vocabulary.encode(question.prompt), vocabulary.encode(question.answer)
    assert vocabulary.decode(prompt + reply) == question.text
    assert vocabulary.encode(question.text) == prompt + reply
    assert reply[-1] == vocabulary.end


def test_digits_of_a_number_are_counted():
    vocabulary = Vocabulary(find_algorithm("insertion_sort"))
    assert vocabulary.digit_places(vocabulary.encode("[0.549 0.7 0.03]")) == [0, 1, 2, 3, 0, 1, 0, 1, 2, 0]


def test_what_cannot_be_asked_is_refused():
    with pytest.raises(ArgumentError, match=r"algorithm must be known, got 'bogosort'\. .*Known: insertion_sort"):
        find_algorithm("bogosort")
    with pytest.raises(ArgumentError, match="size of kmp_matcher must be at least 3, got 2"):
        find_algorithm("kmp_matcher").sample(2, stream("tests"))
    with pytest.raises(ArgumentError, match="text must be a question of these algorithms, got 'k' in it"):
        Vocabulary(find_algorithm("minimum")).encode("kangaroo")
