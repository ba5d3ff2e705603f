"""A diagnosis as tables for the terminal and as a page: verdict first, causes against size, heads by role."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from strop.diagnosing.causes import CAUSES
from strop.diagnosing.drawings import draw_causes, draw_roles, draw_symptoms
from strop.diagnosing.heads import ROLES
from strop.diagnosing.symptoms import SYMPTOMS
from strop.diagnosing.verdict import MEANING, count_all, pick_failures
from strop.records import Record, provenance, real, whole
from strop.report.format import number, percent
from strop.report.page import Page
from strop.report.tables import Column, Table

if TYPE_CHECKING:
    from strop.diagnosing.verb import Diagnosis

NUMBERS_EXPLAINED = (
    ("size", "What the task counts: pairs, numbers, sentences; of your own prompts, tokens in doublings."),
    ("exact, %", "Share of the answers of which every token is the most likely one."),
    ("wrong, mended", "Wrong answers that one step of temperatures, made from other prompts, makes right."),
    ("right, broken", "Right answers that it makes wrong."),
    ("mended by β = 2", "Wrong answers that sharpening the heads that carry answers, and no others, makes right."),
    ("retrieval, %", "Share of the answers' tokens at which the head's top key is the token that is written next."),
    ("evidence, %", "Mean weight on the words that hold the answer, at the rows before its tokens."),
    ("cost, nats", "What the model's own answer loses when the head is silent while the question is read."),
    ("gain, nats", "What the right token gains at wrong answers when this head alone is sharpened with β = 2."),
    ("first token, %", "Mean weight on the first token, where heads rest."),
    ("last 16, %", "Mean weight on a row's own token and the 15 before it."),
    ("β", "Least factor of the logits at which dispersed evidence would get half the weight, median over answers."),
)

ROLES_EXPLAINED = {
    "carries": "its silence costs answers that it copies",
    "sink": "half its weight or more is on the first token",
    "local": "half its weight or more is on the last 16 tokens",
    "blunt": "it gives no key half its weight, and carries no answers",
    "other": "it looks sharply at something else",
}


def tabulate_causes(causes: Sequence[Record]) -> Table:
    """Return exact answers and wrong ones by cause, for every task and size."""
    count = {cause: sum(whole(row[cause]) for row in causes) for cause in CAUSES}
    shown = [cause for cause in CAUSES if count[cause]]
    rarer = sorted(shown, key=lambda cause: -count[cause])  # where there is little room, the rarest goes first
    columns = [
        Column("task"), Column("size"), Column("tokens", rank=9), Column("exact", "exact, %", percent),
        Column("wrong", rank=4), *(Column(cause, rank=5 + rarer.index(cause) / 10) for cause in shown),
    ]  # fmt: skip
    if any(row["beta"] is not None for row in causes):
        columns.append(Column("beta", "β", align="right", rank=8))
    return Table.of(causes, columns)


def tabulate_roles(heads: Sequence[Record], count: int | None = None) -> Table:
    """Return the heads that matter most: those that carry answers by their cost, then by retrieval score."""
    ordered = sorted(heads, key=lambda row: (not row["carries"], -real(row["cost"] or 0.0), -real(row["retrieval"])))
    rows = [{**row, "place": f"L{row['layer']} H{row['head']}"} for row in ordered[:count]]
    columns = [
        Column("place", "head"), Column("role"), Column("retrieval", "retrieval, %", percent),
        Column("weight", "evidence, %", percent, rank=3), Column("cost", "cost, nats", align="right", rank=2),
        Column("gain", "gain, nats", align="right", rank=6), Column("carries", rank=9),
        Column("first_weight", "first token, %", percent, rank=7),
        Column("recent_weight", "last 16, %", percent, rank=8),
    ]  # fmt: skip
    return Table.of(rows, columns, "" if count is None else f"The {len(rows)} heads that matter most")


def tabulate_trials(trials: Sequence[Record], checks: Sequence[Record]) -> Table:
    """Return what one step of temperatures does on each task, and what sharpening the carriers alone does."""
    sharpened = {row["task"]: f"{row['mended']} of {row['wrong']}" for row in checks}
    tried = {row["task"]: row for row in trials}
    rows: list[Record] = []
    for task in dict.fromkeys([*tried, *sharpened]):
        one = tried.get(task)
        step: Record = {} if one is None else {
            "learned": one["learned"], "mended": f"{one['mended']} of {one['wrong']}",
            "broken": f"{one['broken']} of {whole(one['tested']) - whole(one['wrong'])}",
        }  # fmt: skip
        rows.append({"task": task, **step, "sharpened": sharpened.get(task)})
    columns = [
        Column("task"), Column("mended", "wrong, mended", align="right"),
        Column("broken", "right, broken", align="right"), Column("sharpened", "mended by β = 2", align="right", rank=5),
        Column("learned", "made from prompts", rank=6),
    ]  # fmt: skip
    return Table.of(rows, columns)


def tabulate_symptoms(symptoms: Sequence[Record]) -> Table:
    """Return every symptom at the smallest and largest input of one task, over the heads that carry its answers."""
    rows: list[Record] = []
    task = _pick_task(symptoms)
    for one in SYMPTOMS:
        known = [row for row in symptoms if row["symptom"] == one.name and row["task"] in (task, None)]
        mine = sorted(known, key=lambda row: whole(row["tokens"]))
        ends = [_tell_symptom(row, one.share) for row in (mine[0], mine[-1])] if mine else ["–", "–"]
        tokens = [number(row["tokens"]) for row in (mine[0], mine[-1])] if mine else ["–", "–"]
        last = ends[1] if tokens[0] != tokens[1] else ""
        rows.append({
            "symptom": one.title, "small": f"{ends[0]} at {tokens[0]}",
            "large": f"{last} at {tokens[1]}" if last else "",
            "sentence": one.sentence,
        })  # fmt: skip
    columns = [
        Column("symptom"), Column("small", "smallest, tokens"), Column("large", "largest, tokens"),
        Column("sentence", "what it says", rank=5),
    ]  # fmt: skip
    return Table.of(rows, columns, "" if task is None else f"At the smallest and the largest size of {task}")


def _pick_task(symptoms: Sequence[Record]) -> str | None:
    """The task whose prompts reach furthest, among those of several sizes where there are any."""
    sizes: dict[str, set[int]] = {}
    for row in symptoms:
        if row["task"] is not None:
            sizes.setdefault(str(row["task"]), set()).add(whole(row["tokens"]))
    return max(sizes, key=lambda task: (len(sizes[task]) > 1, max(sizes[task])), default=None)


def _tell_symptom(row: Record, share: bool) -> str:
    value = row["value"] if row["carriers"] is None else row["carriers"]
    return "–" if value is None else f"{percent(real(value))} %" if share else number(value)


def make_diagnosis_page(found: Diagnosis) -> Page:
    """Return the page of a diagnosis."""
    made = Page(f"What fails in {found.model} as inputs grow?", lead=found.verdict, kicker="strop diagnose")
    made.provenance = {**found.settings, **provenance()}
    _add_facts(made, found)
    section = made.section("Can a temperature mend it?")
    section.text(found.summary)
    if found.trials or found.checks:
        section.table(tabulate_trials(found.trials, found.checks))
    section.text(f"Next. {found.advice[0]}")
    section.code(found.advice[1])
    _add_causes(made, found.causes)
    _add_heads(made, found.heads)
    _add_symptoms(made, found.symptoms)
    reading = made.section("How to read this")
    for title, words in NUMBERS_EXPLAINED:
        reading.text(f"`{title}` {words}")
    for one in SYMPTOMS:
        reading.text(f"`{one.title}` {one.sentence} From: {one.paper}.")
    return made


def _add_facts(made: Page, found: Diagnosis) -> None:
    failures = pick_failures(found.causes)
    wrong = sum(whole(row["wrong"]) for row in failures)
    made.fact(str(len(failures)), f"of {len({row['task'] for row in found.causes})} tasks fail")
    for cause, count in count_all(failures).items():
        if count:
            made.fact(f"{count} of {wrong}", f"wrong answers: {cause}")
    made.fact(number(sum(bool(row["carries"]) for row in found.heads)), f"of {len(found.heads)} heads carry answers")


def _add_causes(made: Page, causes: Sequence[Record]) -> None:
    section = made.section("Causes against size")
    words = "Wrong answers as a share of all, by cause, at every size that was asked."
    section.figure(draw_causes(causes), words, alt="Share of wrong answers by cause, against the size of the task")
    section.table(tabulate_causes(causes))
    for cause in CAUSES:
        if any(row[cause] for row in causes):
            section.text(f"`{cause}`: wrong answers that {MEANING[cause].partition(' (')[0]}.")


def _add_symptoms(made: Page, symptoms: Sequence[Record]) -> None:
    section = made.section("Other ways in which long inputs fail")
    words = "Mean over the heads that carry a task's answers; of the model where a number has no heads."
    section.figure(draw_symptoms(symptoms), words, alt="Every symptom against the length of the prompt, a line a task")
    section.table(tabulate_symptoms(symptoms))


def _add_heads(made: Page, heads: Sequence[Record]) -> None:
    section = made.section("Heads by role")
    count = Counter(str(row["role"]) for row in heads)
    told = "; ".join(f"{role} ({count[role]}): {ROLES_EXPLAINED[role]}" for role in ROLES)
    section.figure(draw_roles(heads), f"{told}.", alt="Map of heads by role, layers from left to right")
    section.table(tabulate_roles(heads), sortable=True, filterable=True)
