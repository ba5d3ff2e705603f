"""What a diagnosis means, in words with their numbers, and the next command."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from strop.diagnosing.causes import CAUSES
from strop.records import Record, real, whole
from strop.report.format import number, percent

MEANING = {
    "dispersion": "have heads that rank the evidence first and give it too little weight (dispersion: a temperature "
    "can mend these)",
    "order": "have heads that rank something else first (order: no temperature can)",
    "sink": "have heads that rest on the first token (a sink: sharpening would feed it)",
    "collapse": "attend to the evidence and end in nearly the same state as another answer (collapse)",
    "elsewhere": "attend to the evidence and answer wrongly all the same (elsewhere)",
    "unknown": "have no head that is known to carry answers (unknown)",
}

ADVICE = {
    "dispersion": "A temperature can mend most of these. Calibrate, which finds one for each head and tests it:",
    "order": "No temperature changes what comes first. An edit of the query can:",
    "sink": "A temperature would sharpen the sink as well. An edit of the query can move heads off it:",
    "collapse": "Attention finds the evidence. Nothing that strop changes mends what comes after it; see the heads:",
    "elsewhere": "Attention finds the evidence. Nothing that strop changes mends what comes after it; see the heads:",
    "unknown": "No head copies the answers. Evidence of another kind may tell more:",
}


def pick_failures(causes: Sequence[Record]) -> list[Record]:
    """Return the record of the first size at which each task fails."""
    found: dict[str, Record] = {}
    for row in sorted(causes, key=lambda row: whole(row["size"])):
        if row["failing"] and str(row["task"]) not in found:
            found[str(row["task"])] = row
    return list(found.values())


def count_all(failures: Sequence[Record]) -> dict[str, int]:
    """Return how many wrong answers there are of each cause, the most frequent first."""
    count = {cause: sum(whole(row[cause]) for row in failures) for cause in CAUSES}
    return dict(sorted(count.items(), key=lambda pair: -pair[1]))


def name_cause(causes: Sequence[Record]) -> str | None:
    """Return the cause of most wrong answers at the first sizes that fail; None where nothing fails."""
    failures = pick_failures(causes)
    return next(iter(count_all(failures))) if failures else None


def write_diagnosis(model: str, causes: Sequence[Record]) -> str:
    """Say what fails as inputs grow, and whether a temperature can mend it."""
    failures = pick_failures(causes)
    if not failures:
        return f"{model} does not fail: {_list_sizes(causes)}. There is nothing for a temperature to mend."
    count = count_all(failures)
    main = next(iter(count))
    wrong = sum(whole(row["wrong"]) for row in failures)
    where = ", ".join(f"{row['task']} at size {row['size']} ({number(row['tokens'])} tokens)" for row in failures)
    told = [f"{each} {MEANING[cause]}" for cause, each in count.items() if each]
    first = f"{_NAMES[main]} is what fails most in {model}" if count[main] < wrong else f"{_NAMES[main]} fails {model}"
    return f"{first}: of {wrong} wrong answers on {where}, {'; '.join(told)}."


def write_summary(causes: Sequence[Record]) -> str:
    """Say for each task where it fails, or how far it was tried."""
    failing = {str(row["task"]): row for row in pick_failures(causes)}
    parts = []
    for task in dict.fromkeys(str(row["task"]) for row in causes):
        rows = [row for row in causes if row["task"] == task]
        row = failing.get(task) or max(rows, key=lambda row: whole(row["size"]))
        verb = "falls to" if task in failing else "stays at"
        parts.append(f"{task} {verb} {percent(real(row['exact']))} % at size {row['size']}")
    return f"{'; '.join(parts)}."


def advise_next(given: str | None, causes: Sequence[Record], data: str | None) -> tuple[str, str]:
    """Return what to do next and the command for it, or the call for a model that was not `given` by name."""
    failures, main = pick_failures(causes), name_cause(causes)
    if main is None:
        rest = ("diagnose", {"longest": "8192"})
        return "Longer contexts were not tried:", _command(given, *rest)
    task = str(max(failures, key=lambda row: whole(row[main]))["task"])
    source = {"task": task} if data is None else {"data": data}
    if main == "dispersion":
        return ADVICE[main], _command(given, "calibrate", source)
    if main in ("order", "sink"):
        return ADVICE[main], _command(given, "calibrate", source | {"form": "query"})
    if main == "unknown":
        return ADVICE[main], _command(given, "diagnose", {"data": "FILE.jsonl"})
    return ADVICE[main], _command(given, "probe", {})


_NAMES = {
    "dispersion": "Dispersion", "order": "The order of keys", "sink": "A sink", "collapse": "Collapse",
    "elsewhere": "Something behind attention", "unknown": "An unknown cause",
}  # fmt: skip


def _command(given: str | None, verb: str, options: dict[str, str]) -> str:
    if given is not None:
        flags = "".join(f" --{name} {shlex.quote(value)}" for name, value in options.items())
        return f"strop {verb} {shlex.quote(given)}{flags}"
    named = {("task" if name == "data" else name): value for name, value in options.items()}
    told = "".join(f", {name}={value if value.isdigit() else repr(value)}" for name, value in named.items())
    return f"strop.{verb}(model, tokenizer{told})"


def _list_sizes(causes: Sequence[Record]) -> str:
    last = {str(row["task"]): row for row in sorted(causes, key=lambda row: whole(row["size"]))}
    return "; ".join(
        f"{task} is {percent(real(row['exact']))} % exact at size {row['size']}, the largest tried "
        f"({number(row['tokens'])} tokens)"
        for task, row in last.items()
    )
