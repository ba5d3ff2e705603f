"""Which prompts a diagnosis asks: sizes are found by doubling, until the model fails or the context ends.

A built-in task begins at FIRST and doubles. It ends `more` doublings after the first size at which fewer than FAILS of
the answers are exact, or where the next size would not fit into `longest` tokens, or where the task has no larger size.
A user's own prompts are asked once each, in groups by their size; those that say none by their length in tokens, in
doublings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from strop._checks import require
from strop.diagnosing.asking import Asked, ask
from strop.diagnosing.groups import Answered
from strop.diagnosing.plan import Questioning
from strop.errors import ArgumentError
from strop.tasks.answers import Reader
from strop.tasks.catalogue import draw_passages, find_task
from strop.tasks.prompts import Prompts
from strop.tasks.sizes import FAILS, FIRST

Reading = tuple[int, list[Asked]]
"""A size and its passages."""


def fails(group: Answered) -> bool:
    """Whether the model fails at a group's size."""
    return group.accuracy < FAILS


def grow_task(
    reader: Reader, task: str, plan: Questioning, read: Callable[[int, list[Asked]], Answered]
) -> Iterator[tuple[Answered, list[Asked]]]:
    """Yield every group of a built-in task, each read by `read`, and its passages."""
    size, left = FIRST, plan.more
    while (passages := draw_size(reader, task, size, plan)) is not None:
        group = read(size, passages)
        yield group, passages
        if fails(group):
            left -= 1
        if left < 0:
            return
        size *= 2


def draw_size(reader: Reader, task: str, size: int, plan: Questioning) -> list[Asked] | None:
    """Return the passages of a built-in task at a size, or None where there are none that fit."""
    known = find_task(task)
    chosen = tuple(name for name in known.phrasings if name in plan.phrasings) or known.open_phrasings[:1]
    try:
        one = len(draw_passages(task, "test", plan.seed, (size,), chosen[:1], 1, plan.questions)[0].questions)
        count = -(-plan.prompts // (one * len(chosen)))
        drawn = draw_passages(task, "test", plan.seed, (size,), chosen, count, plan.questions)
    except ArgumentError:  # the task has no passages of this size
        return None
    passages = [ask(reader, passage) for passage in drawn]
    return passages if max(count_prompt_tokens(one) for one in passages) <= plan.longest else None


def ask_prompts(reader: Reader, prompts: Prompts, longest: int, remedy: str) -> list[Reading]:
    """Return a user's own prompts by size, the smallest first; raise with the line of one that is wrong."""
    groups: dict[int, list[Asked]] = {}
    for passage, line in zip(prompts.passages, prompts.lines, strict=True):
        asked = ask(reader, passage, line)
        tokens = count_prompt_tokens(asked)
        require(tokens <= longest, f"{line} must fit into {longest:,} tokens", f"{tokens:,}", remedy)
        groups.setdefault(passage.size or 1 << (tokens - 1).bit_length(), []).append(asked)
    return sorted(groups.items())


def count_prompt_tokens(asked: Asked) -> int:
    """Return the length of the longest prompt of a passage, its answer included."""
    return int(asked.tokens.shape[1])


def largest_of(groups: Sequence[Answered]) -> Answered:
    """Return the group of the largest size."""
    return max(groups, key=lambda group: group.size)


def first_failure(groups: Sequence[Answered]) -> Answered | None:
    """Return the group of the smallest size at which the model fails, or None."""
    return min((group for group in groups if fails(group)), key=lambda group: group.size, default=None)
