"""Text tasks of any size, and a user's own prompts.

passages.py    what a task is made of: a passage to read, questions about it whose answers are known
builtin/       recall, maximum, passkey, variables, chains, counting: a file each; catalogue.py finds them
prompts.py     a user's own prompts and answers
prose.py       ordinary text, to see that a model still reads as it did
answers.py     how a model reads passages, and whether it would write the answers
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strop._lazy import lazy_names

if TYPE_CHECKING:
    from strop.tasks.answers import Reader as Reader
    from strop.tasks.catalogue import TASKS as TASKS
    from strop.tasks.passages import Passage as Passage
    from strop.tasks.passages import TextTask as TextTask
    from strop.tasks.prompts import Prompts as Prompts

_HOMES = {
    "Passage": "passages",
    "Prompts": "prompts",
    "Reader": "answers",
    "TASKS": "catalogue",
    "TextTask": "passages",
}
__all__ = [*_HOMES]
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
