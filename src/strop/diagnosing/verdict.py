"""What a diagnosis means, in words with their numbers, and the next command."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from strop.diagnosing.causes import CAUSES
from strop.diagnosing.plan import LEARNED
from strop.records import Record, real, whole
from strop.report.format import number, percent
from strop.tasks.prompts import IN_MEMORY

MEANING = {
    "dispersion": "have heads that rank the evidence first and give it too little weight (dispersion: sharper, they "
    "would read it)",
    "order": "have heads that rank something else first (order: sharper, they would not)",
    "sink": "have heads that rest on the first token (a sink: sharper, they would rest all the more)",
    "collapse": "attend to the evidence and end in nearly the same state as another answer (collapse)",
    "elsewhere": "attend to the evidence and answer wrongly all the same (elsewhere)",
    "unknown": "have no head that is known to carry answers (unknown)",
}

MENDED = 0.25
"""Share of wrong answers that a step of temperatures must mend for calibration to be the next thing to do."""

ADVICE = {
    "mended": "Calibrate, which finds temperatures that leave the rest as it is, and tests them:",
    "dispersion": "A temperature should mend most of these. Calibrate, which finds one for each head and tests it:",
    "order": "No temperature changes what comes first. An edit of the query may:",
    "sink": "A temperature would sharpen the sink as well. An edit of the query may move heads off it:",
    "elsewhere": "The heads that copy answers find the evidence; what fails comes after them. See what all heads do:",
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


def count_mended(trials: Sequence[Record]) -> tuple[int, int]:
    """Return how many wrong answers a step of temperatures mended, and how many there were."""
    return sum(whole(row["mended"]) for row in trials), sum(whole(row["wrong"]) for row in trials)


def write_diagnosis(model: str, causes: Sequence[Record], trials: Sequence[Record] = ()) -> str:
    """Say what fails as inputs grow, and whether a temperature can mend it."""
    failures = pick_failures(causes)
    if not failures:
        return f"{model} does not fail: {_list_sizes(causes)}. There is nothing for a temperature to mend."
    count = count_all(failures)
    main = next(iter(count))
    wrong = sum(whole(row["wrong"]) for row in failures)
    told = [f"{each} {_agree(each, MEANING[cause])}" for cause, each in count.items() if each]
    most = f"is what fails most in {model}" if count[main] < wrong else f"fails {model}"
    first = f"{_NAMES[main]} {most}" + ("" if main == "unknown" else ", by the heads that copy answers")
    many = f"{wrong} wrong answer{'s' * (wrong != 1)}"
    return f"{_tell_trials(model, trials)}{first}: of {many} {_tell_where(failures)}, {'; '.join(told)}."


def _tell_where(failures: Sequence[Record]) -> str:
    """Which tasks fail, and how long their prompts are then."""
    tasks = ", ".join(str(row["task"]) for row in failures)
    if len(failures) == 1:
        return f"on {tasks} at size {failures[0]['size']} ({number(failures[0]['tokens'])} tokens)"
    ends = [number(end(whole(row["tokens"]) for row in failures)) for end in (min, max)]
    return f"on {tasks}, each at the first size that fails ({ends[0]} to {ends[1]} tokens)"


def _tell_trials(model: str, trials: Sequence[Record]) -> str:
    """What a step of temperatures did, and nothing where no wrong answer was left to try it on."""
    if not trials:
        return f"Whether temperatures mend {model} was not tried: it takes more than {LEARNED} prompts of one size. "
    mended, wrong = count_mended(trials)
    if not wrong:
        return ""
    right, broken = sum(whole(row["tested"]) for row in trials) - wrong, sum(whole(row["broken"]) for row in trials)
    much = "mend" if mended >= MENDED * wrong else "mend little in"
    cost = f" and {broken} of {right} right ones wrong" if right else ""
    told = f"one step, made from other prompts, makes {mended} of {wrong} wrong answers right{cost}"
    return f"Temperatures {much} {model}: {told}. "


def _agree(count: int, words: str) -> str:
    """One answer has, several have."""
    for many, one in (("have ", "has "), ("attend ", "attends ")):
        if count == 1 and words.startswith(many):
            rest = words.removeprefix(many)
            return one + rest.replace(" and end ", " and ends ").replace(" and answer ", " and answers ")
    return words


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


def advise_next(
    given: str | None, causes: Sequence[Record], trials: Sequence[Record], data: str | None, longer: int | None = None
) -> tuple[str, str]:
    """Return what to do next and the command for it, or the call for a model that was not `given` by name.

    What a step of temperatures did counts for more than the causes. `longer` are tokens to try where nothing fails;
    None: there are no more.
    """
    failures, main = pick_failures(causes), name_cause(causes)
    if main is None and longer is not None:
        return "Longer contexts were not tried:", _command(given, "diagnose", {"longest": str(longer)})
    if main is None:
        return "Nothing is left to try. See what all heads do:", _command(given, "probe", {})
    mended, wrong = count_mended(trials)
    if wrong and mended >= MENDED * wrong:
        task = str(max(trials, key=lambda row: whole(row["mended"]))["task"])
        return ADVICE["mended"], _command(given, "calibrate", {"task": task} if data is None else {"data": data})
    task = str(max(failures, key=lambda row: whole(row[main]))["task"])
    source = {"task": task} if data is None else {"data": data}
    if main == "dispersion":
        return ADVICE[main], _command(given, "calibrate", source)
    if main in ("order", "sink"):
        return ADVICE[main], _command(given, "calibrate", source | {"form": "query"})
    if main == "unknown":
        return ADVICE[main], _command(given, "diagnose", {"data": "FILE.jsonl"})
    return ADVICE["elsewhere"], _command(given, "probe", {})


_NAMES = {
    "dispersion": "Dispersion", "order": "The order of keys", "sink": "A sink", "collapse": "Collapse",
    "elsewhere": "Something beyond the heads that copy answers", "unknown": "An unknown cause",
}  # fmt: skip


def _command(given: str | None, verb: str, options: dict[str, str]) -> str:
    if given is not None:
        flags = "".join(f" --{name} {shlex.quote(value)}" for name, value in options.items())
        return f"strop {verb} {shlex.quote(given)}{flags}"
    named = {("task" if name == "data" else name): value for name, value in options.items()}
    bare = {name: value if value.isdigit() else repr(value) for name, value in named.items()}
    told = "".join(f", {name}={value if value != repr(IN_MEMORY) else 'prompts'}" for name, value in bare.items())
    return f"strop.{verb}(model, tokenizer{told})"


def _list_sizes(causes: Sequence[Record]) -> str:
    last = {str(row["task"]): row for row in sorted(causes, key=lambda row: whole(row["size"]))}
    return "; ".join(
        f"{task} is {percent(real(row['exact']))} % exact at size {row['size']}, the largest tried "
        f"({number(row['tokens'])} tokens)"
        for task, row in last.items()
    )
