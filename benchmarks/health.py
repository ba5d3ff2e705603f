"""Attention health: do row statistics at the answer predict wrong answers, on tasks that they were not fitted to?

    python benchmarks/health.py               # what was measured
    python benchmarks/health.py smollm2 recall maximum variables      # what was read is kept in runs/health

A sample is a token of an answer that greedy decoding would reach, all tokens before it being right: will it be wrong?
Nothing that is used knows the answer.

    confidence   −log-likelihood of the model's own next token
    attention    entropy as a share of log n, top weight, weight on the first token and on the last 16, each averaged
                 over the heads of each layer; a logistic regression with an L2 penalty, fitted to the other tasks
    both         the same with the confidence beside them

AUROC on the task that was left out, and over all samples (each scored by the fit that had not seen its task), with
95 % intervals from draws of questions.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from strop.diagnosing.asking import Contexts
from strop.diagnosing.groups import Answered, read_group
from strop.diagnosing.plan import Questioning
from strop.diagnosing.sizes import draw_size
from strop.patching.identity import heads_of
from strop.pretrained.load import open_model
from strop.tasks.answers import Reader

RESULT = Path(__file__).parent / "results" / "health.json"
RUNS = Path("runs") / "health"
SIZES = (4, 8, 16)
PROMPTS, DRAWS, PENALTY = 24, 500, 1.0
STATISTICS = ("entropy", "top_weight", "first_weight", "recent_weight")


def read_all(name: str, tasks: Sequence[str]) -> tuple[dict[str, list[Answered]], list[int]]:
    """Read every task at every size, or take what was read before; the number of heads of each layer."""
    opened = open_model(name, None, None, False, "cpu", "float32")
    model, reader, plan = opened.model, Reader(opened.tokenizer), Questioning(prompts=PROMPTS)
    RUNS.mkdir(parents=True, exist_ok=True)
    groups: dict[str, list[Answered]] = {}
    for task in tasks:
        for size in SIZES:
            path = RUNS / f"{name}-{task}-{size}.safetensors"
            if not path.exists():
                passages = draw_size(reader, task, size, plan)
                if passages is None:
                    continue
                read_group(Contexts(model), passages, task, size).save(path)
            groups.setdefault(task, []).append(Answered.load(path))
    return groups, list(heads_of(model).values())


def take_samples(group: Answered, heads: list[int]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return (statistics [n, k], confidence [n, 1], whether the token is wrong [n], its question [n])."""
    right = (group.correct & group.counted).long().cumprod(1).bool()
    reached = group.counted & torch.cat([torch.ones_like(right[:, :1]), right[:, :-1]], 1)
    entropy = group.number("entropy") / group.number("n_keys").clamp(min=2).log()
    numbers = [entropy, *(group.number(one) for one in STATISTICS[1:])]
    layers = [torch.stack([part.mean(-1) for part in one[reached].split(heads, -1)], -1) for one in numbers]
    question = 1000 * group.size + reached.nonzero()[:, 0]
    return torch.cat(layers, -1), -group.best[reached][:, None], ~group.correct[reached], question


def fit(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Logistic regression with an L2 penalty on all but the constant; returns (weights, constant)."""
    weights = torch.zeros(x.shape[1] + 1, dtype=torch.float64, requires_grad=True)
    descent = torch.optim.LBFGS([weights], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        descent.zero_grad()
        given = x @ weights[:-1] + weights[-1]
        found = torch.nn.functional.binary_cross_entropy_with_logits(given, y.double(), reduction="sum")
        found = found + PENALTY * weights[:-1].square().sum() / 2
        found.backward()
        return found

    descent.step(loss)
    return weights[:-1].detach(), weights[-1].detach()


def score_left_out(samples: dict[str, tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
    """Score the samples (x, y) of each task by a fit to all others; y of too few kinds gives no fit."""
    scores = {}
    for task, (x, _) in samples.items():
        rest = [pair for other, pair in samples.items() if other != task]
        seen, wrong = torch.cat([one for one, _ in rest]).double(), torch.cat([one for _, one in rest])
        mean, spread = seen.mean(0), seen.std(0).clamp(min=1e-6)
        weights, constant = fit((seen - mean) / spread, wrong)
        scores[task] = (x.double() - mean) / spread @ weights + constant
    return scores


def auroc(score: Tensor, wrong: Tensor) -> float:
    """How often a wrong token scores above a right one; ties count half. NaN without both kinds."""
    ordered = score[~wrong].sort().values
    below, until = (torch.searchsorted(ordered, score[wrong], right=right).double() for right in (False, True))
    return float(((below + until) / 2 / max(1, len(ordered))).mean()) if len(ordered) else float("nan")


def with_interval(score: Tensor, wrong: Tensor, question: Tensor) -> list[float] | None:
    """AUROC and its 2.5 and 97.5 % points over draws of questions; None without both kinds."""
    if not 0 < int(wrong.sum()) < len(wrong):
        return None
    draw = torch.Generator().manual_seed(0)
    _, number, counts = question.unique(return_inverse=True, return_counts=True)
    own = number.argsort(stable=True).split(counts.tolist())
    drawn = []
    for _ in range(DRAWS):
        pick = torch.cat([own[i] for i in torch.randint(len(own), (len(own),), generator=draw).tolist()])
        drawn.append(auroc(score[pick], wrong[pick]))
    ends = torch.tensor(drawn).nanquantile(torch.tensor([0.025, 0.975])).tolist()
    return [round(value, 3) for value in (auroc(score, wrong), *ends)]


def measure(name: str, tasks: Sequence[str]) -> dict[str, Any]:
    """Everything of one model."""
    groups, heads = read_all(name, tasks)
    parts = {task: [torch.cat(one) for one in zip(*(take_samples(group, heads) for group in each), strict=True)]
             for task, each in groups.items()}  # fmt: skip
    wrong = {task: part[2] for task, part in parts.items()}
    scores = {
        "confidence": {task: part[1][:, 0] for task, part in parts.items()},
        "attention": score_left_out({task: (part[0], part[2]) for task, part in parts.items()}),
        "both": score_left_out({task: (torch.cat(part[:2], 1), part[2]) for task, part in parts.items()}),
    }
    told: dict[str, Any] = {task: {"samples": len(one), "wrong": int(one.sum())} for task, one in wrong.items()}
    for kind, by_task in scores.items():
        for task, score in by_task.items():
            told[task][kind] = with_interval(score, wrong[task], parts[task][3])
    every = torch.cat(list(wrong.values()))
    told["all"] = {"samples": len(every), "wrong": int(every.sum())}
    question = torch.cat([100_000 * i + part[3] for i, part in enumerate(parts.values())])
    told["all"] |= {
        kind: with_interval(torch.cat(list(each.values())), every, question) for kind, each in scores.items()
    }
    return told


def main() -> None:
    """Measure the model and the tasks that are named, then tell."""
    kept = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
    if sys.argv[1:]:
        kept[sys.argv[1]] = measure(sys.argv[1], sys.argv[2:])
        RESULT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    for name, told in kept.items():
        for task, record in told.items():
            print(json.dumps({"model": name, "task": task, **record}))


if __name__ == "__main__":
    main()
