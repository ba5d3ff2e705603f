"""Sorting: each algorithm orders a list in place, as in the textbook. What is asked is the list in order."""

from __future__ import annotations

from strop.studies.clrs.text.algorithm import Vector


def insertion_sort(key: Vector) -> tuple[Vector]:
    """Put each item where it belongs among those before it."""
    out = list(key)
    for j in range(1, len(out)):
        item, i = out[j], j
        while i > 0 and out[i - 1] > item:
            out[i] = out[i - 1]
            i -= 1
        out[i] = item
    return (out,)


def bubble_sort(key: Vector) -> tuple[Vector]:
    """Let the least item of the rest rise, again and again."""
    out = list(key)
    for i in range(len(out) - 1):
        for j in range(len(out) - 1, i, -1):
            if out[j] < out[j - 1]:
                out[j], out[j - 1] = out[j - 1], out[j]
    return (out,)


def heapsort(key: Vector) -> tuple[Vector]:
    """Make a heap; take its largest item off, again and again."""
    out = list(key)
    for start in reversed(range(len(out) // 2)):
        _sift(out, start, len(out))
    for end in range(len(out) - 1, 0, -1):
        out[0], out[end] = out[end], out[0]
        _sift(out, 0, end)
    return (out,)


def _sift(heap: Vector, at: int, end: int) -> None:
    """Let heap[at] sink until no child in heap[:end] is larger."""
    while True:
        largest = max((i for i in (at, 2 * at + 1, 2 * at + 2) if i < end), key=lambda i: heap[i])
        if largest == at:
            return
        heap[at], heap[largest] = heap[largest], heap[at]
        at = largest


def quicksort(key: Vector) -> tuple[Vector]:
    """Split by the last item; sort both sides."""
    out, open_ = list(key), [(0, len(key) - 1)]
    while open_:
        low, high = open_.pop()
        if low < high:
            place = partition(out, low, high)
            open_ += [(low, place - 1), (place + 1, high)]
    return (out,)


def partition(items: Vector, low: int, high: int) -> int:
    """Put what is at most items[high] before it and the rest behind it, in place; return where it stands then."""
    place = low
    for j in range(low, high):
        if items[j] <= items[high]:
            items[place], items[j] = items[j], items[place]
            place += 1
    items[place], items[high] = items[high], items[place]
    return place
