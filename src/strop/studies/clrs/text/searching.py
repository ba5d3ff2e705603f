"""Searching: an index is asked for. Where keys are equal, which index it is follows from the algorithm's own steps."""

from __future__ import annotations

from strop.studies.clrs.text.algorithm import Vector
from strop.studies.clrs.text.sorting import partition


def find_minimum(key: Vector) -> tuple[int]:
    """The first index of the least key."""
    best = 0
    for i, item in enumerate(key):
        if item < key[best]:
            best = i
    return (best,)


def binary_search(key: Vector, target: float) -> tuple[int]:
    """The first index whose key is at least the target; the last one if there is none."""
    low, high = 0, len(key) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if target <= key[middle] else (middle + 1, high)
    return (high,)


def quickselect(key: Vector) -> tuple[int]:
    """Where the median stands: the item of rank len // 2. Split by the last item; go on where the rank lies."""
    items, rank = [(item, i) for i, item in enumerate(key)], len(key) // 2
    low, high = 0, len(key) - 1
    while True:
        place = _partition_pairs(items, low, high)
        if place == rank:
            return (items[place][1],)
        low, high = (low, place - 1) if rank < place else (place + 1, high)


def _partition_pairs(items: list[tuple[float, int]], low: int, high: int) -> int:
    """`partition` by the key alone, with the indices carried along."""
    keyed: Vector = [_ByKey(pair) for pair in items]
    place = partition(keyed, low, high)
    items[:] = [one.pair for one in keyed]
    return place


class _ByKey:
    def __init__(self, pair: tuple[float, int]) -> None:
        self.pair = pair

    def __le__(self, other: _ByKey) -> bool:
        return self.pair[0] <= other.pair[0]


def find_maximum_subarray(key: Vector) -> tuple[int, int]:
    """First and last index of the stretch with the largest sum (Kadane); the first such stretch that is met."""
    best, best_sum = (0, 0), key[0]
    low, total = 0, key[0]
    for high, item in enumerate(key[1:], 1):
        if total + item >= item:
            total += item
        else:
            low, total = high, item
        if total > best_sum:
            best, best_sum = (low, high), total
    return best


def match_naively(string: Vector, key: Vector) -> tuple[int]:
    """The first place of the needle in the haystack: try every place."""
    haystack, needle = split_strings(string, key)
    places = range(len(haystack) - len(needle) + 1)
    return (next(at for at in places if haystack[at : at + len(needle)] == needle),)


def match_kmp(string: Vector, key: Vector) -> tuple[int]:
    """The same by Knuth, Morris and Pratt: never step back in the haystack."""
    haystack, needle = split_strings(string, key)
    borders = _find_borders(needle)
    matched = 0
    for i, letter in enumerate(haystack):
        while matched and needle[matched] != letter:
            matched = borders[matched - 1]
        matched += needle[matched] == letter
        if matched == len(needle):
            return (i - matched + 1,)
    raise AssertionError("the needle is always drawn into the haystack")


def _find_borders(needle: Vector) -> list[int]:
    """The longest proper beginning of needle[:i + 1] that is also its end, for each i."""
    borders, matched = [0], 0
    for letter in needle[1:]:
        while matched and needle[matched] != letter:
            matched = borders[matched - 1]
        matched += needle[matched] == letter
        borders.append(matched)
    return borders


def split_strings(string: Vector, key: Vector) -> tuple[Vector, Vector]:
    """The letters marked 0, and those marked 1."""
    first = string.count(0)
    return key[:first], key[first:]
