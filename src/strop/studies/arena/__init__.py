"""Every normaliser on the same tasks, from small sizes to large ones: `strop arena`.

    result = run_arena(Arena.quick())
    print(result)
    result.report("arena.html")

arena.py        `Arena`: who takes part, and how much work it is
configs.py      what one run depends on
entries.py      how a name such as softmax>top_k(k=2) becomes a normaliser
competition.py  `run_arena`, `read_arena`: sweep, training, trials
runs.py         one run in one process; training.py and measurement.py are its two halves
board.py        scores, tests, verdicts
result.py       `ArenaResult`: records, board, report
report/         tables, figures, words
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strop._lazy import lazy_names

if TYPE_CHECKING:
    from strop.studies.arena.arena import Arena as Arena
    from strop.studies.arena.competition import ArenaProgress as ArenaProgress
    from strop.studies.arena.competition import read_arena as read_arena
    from strop.studies.arena.competition import run_arena as run_arena
    from strop.studies.arena.configs import Budget as Budget
    from strop.studies.arena.configs import Shape as Shape
    from strop.studies.arena.result import ArenaResult as ArenaResult

_HOMES = {
    "Arena": "arena",
    "ArenaProgress": "competition",
    "ArenaResult": "result",
    "Budget": "configs",
    "Shape": "configs",
    "read_arena": "competition",
    "run_arena": "competition",
}
__all__ = [*_HOMES]
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
