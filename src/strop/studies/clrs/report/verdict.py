"""What the study found, in sentences made from its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strop.studies.clrs.comparison import ALL, ArmComparison
from strop.studies.clrs.report.tables import describe_gap

if TYPE_CHECKING:
    from strop.studies.clrs.result import ClrsResult

NAMES = {
    "adaptive": "Adaptive temperature in training and inference",
    "softmax>adaptive": "Adaptive temperature at inference alone",
    "ssmax": "SSMax",
    "softmax>edge": "An edge calibrated afterwards at training sizes",
    "softmax>edge-larger": "An edge calibrated afterwards at larger sizes",
}


def state_verdicts(result: ClrsResult) -> list[str]:
    """Sentences for each arm that was tested beside softmax."""
    arms = [arm for arm in result.study.arms if arm in NAMES]
    ways = (("seen", "exact"), ("beyond", "exact"), ("beyond", "tokens"))
    found = {arm: [result.comparisons(arm, *way) for way in ways] for arm in arms}
    return [_state(arm, *three) for arm, three in found.items() if all(three)]


def _state(arm: str, seen: list[ArmComparison], beyond: list[ArmComparison], tokens: list[ArmComparison]) -> str:
    told = [
        ("exact answers at sizes seen", _tell(seen)),
        ("exact answers beyond", _tell(beyond)),
        ("right tokens beyond", _tell(tokens, questions=False)),
    ]
    return (
        f"{NAMES[arm]}, against softmax: {describe_gap(seen[-1])} of exact answers at sizes seen; beyond them "
        f"{describe_gap(beyond[-1])} of exact answers and {describe_gap(tokens[-1])} of right tokens. "
        + " ".join(f"{what[0].upper()}{what[1:]}: {words}." for what, words in told)
    )


def _tell(found: list[ArmComparison], *, questions: bool = True) -> str:
    """Which algorithms are told apart, over seeds and over questions."""
    single = [one for one in found if one.algorithm != ALL]
    over = {"over seeds": {one.algorithm: one.verdict for one in single}}
    if questions:
        over["over questions"] = {one.algorithm: one.verdict_on_questions for one in single}
    return "; ".join(f"{how} {_list(verdicts)}" for how, verdicts in over.items())


def _list(verdicts: dict[str, str]) -> str:
    named = {word: [name for name, verdict in verdicts.items() if verdict == word] for word in ("better", "worse")}
    return ", ".join(f"{word} in {', '.join(names)}" for word, names in named.items() if names) or "none told apart"
