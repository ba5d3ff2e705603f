"""The examination itself: read every task at every size, find the carriers, name the causes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from torch import nn

from strop._checks import require
from strop.diagnosing.asking import Asked, Contexts
from strop.diagnosing.carriers import CHECKED, find_carriers, sharpen_carriers
from strop.diagnosing.causes import count_causes, find_causes
from strop.diagnosing.curves import follow_symptoms, note_curve
from strop.diagnosing.groups import Answered, HeadPlace, read_group
from strop.diagnosing.heads import describe_heads
from strop.diagnosing.plan import Questioning
from strop.diagnosing.sizes import ask_prompts, fails, first_failure, grow_task
from strop.diagnosing.symptoms import MODEL_SYMPTOMS
from strop.diagnosing.trial import try_temperature
from strop.patching.identity import heads_of
from strop.patching.placement import device_of
from strop.pretrained.load import count_positions
from strop.records import Record
from strop.records.addresses import short_id
from strop.tasks.answers import Reader
from strop.tasks.prompts import Prompts

RUN = 512
"""Longest text that a symptom of the model is measured on, in tokens."""


@dataclass
class Findings:
    """What an examination found, as records."""

    causes: list[Record] = field(default_factory=list)
    heads: list[Record] = field(default_factory=list)
    answers: list[Record] = field(default_factory=list)
    checks: list[Record] = field(default_factory=list)
    trials: list[Record] = field(default_factory=list)
    symptoms: list[Record] = field(default_factory=list)


def examine(
    model: nn.Module, tokenizer: object, tasks: tuple[str, ...], own: Prompts | None, plan: Questioning,
    folder: Path | None, partial: bool, tell: Callable[..., None],
) -> Findings:  # fmt: skip
    """Examine a model on tasks, or on a user's own prompts; groups are kept in `folder`."""
    reader = Reader(tokenizer, device_of(model))
    positions = count_positions(model) or plan.longest + 1
    longest = min(plan.longest, positions)
    remedy = "Read more with longest (--longest)" if longest < positions else "The model has no more positions"
    plan = Questioning(**(vars(plan) | {"longest": longest}))
    places = [HeadPlace(i, name, head) for i, (name, n) in enumerate(heads_of(model).items()) for head in range(n)]
    found, groups, carriers, contexts = Findings(), {}, {}, Contexts(model, CHECKED)
    for task in tasks:

        def read(size: int, passages: list[Asked], task: str = task) -> Answered:
            tell(text=f"{task} at size {size}")
            return _read_once(contexts, passages, task, size, partial, folder)

        if own is None:
            pairs = list(grow_task(reader, task, plan, read))
        else:
            readings = ask_prompts(reader, own, longest, f"Shorten it. {remedy}")
            pairs = [(read(size, passages), passages) for size, passages in readings]
        rule = f"{task} must fit into {longest:,} tokens at its smallest size"
        require(bool(pairs), rule, "a longer prompt", remedy)
        mine, passages = [group for group, _ in pairs], [asked for _, asked in pairs]
        groups[task] = mine
        tell(text=f"{task}: which heads carry answers")
        carriers[task] = find_carriers(contexts, places, mine, passages)
        failing = first_failure(mine)
        at = passages[mine.index(failing)] if failing is not None else []
        if failing is not None and carriers[task]:
            failed = _pick_failed(failing, at, contexts)
            carriers[task], wrong, mended = sharpen_carriers(contexts, carriers[task], failed)
            found.checks.append({"task": task, "size": failing.size, "wrong": wrong, "mended": mended})
        if failing is not None and plan.trial:
            tell(text=f"{task}: one step of temperatures")
            tried = try_temperature(model, at, failing.exact)
            found.trials += [] if tried is None else [{"task": task, "size": failing.size, **tried}]
        answers = find_causes(mine, carriers[task])
        found.answers += answers
        counts = count_causes(mine, answers)
        found.causes += [row | {"failing": fails(group)} for row, group in zip(counts, mine, strict=True)]
        found.symptoms += follow_symptoms(mine, carriers[task])
    for symptom in MODEL_SYMPTOMS:
        tell(text=symptom.title)
        found.symptoms += note_curve(symptom.name, symptom.measure(model, min(longest, RUN)))
    found.heads = describe_heads(places, groups, carriers)
    return found


def _pick_failed(group: Answered, passages: list[Asked], contexts: Contexts) -> list[Asked]:
    """The passages with wrong answers, those with most of them first, and among equals those at hand."""
    wrong = (~group.exact).split([len(asked.ids) for asked in passages])
    order = sorted(range(len(passages)), key=lambda i: (-int(wrong[i].sum()), not contexts.holds(passages[i])))
    return [passages[i] for i in order if bool(wrong[i].any())]


def _read_once(
    contexts: Contexts, passages: list[Asked], task: str, size: int, partial: bool, folder: Path | None
) -> Answered:
    """Read a group, or take it from the folder where the same tokens were read before."""
    if folder is None:
        return read_group(contexts, passages, task, size, partial)
    tokens = short_id([[one.tokens.tolist(), one.evidence.tolist()] for one in passages])
    path = folder / f"{task}-{size}-{tokens}.safetensors"
    if path.exists():
        return Answered.load(path)
    group = read_group(contexts, passages, task, size, partial)
    folder.mkdir(parents=True, exist_ok=True)
    group.save(path)
    return group
