"""Which heads carry answers, which does calibration change, and which does gap counting predict? On recall, by model.

    python benchmarks/heads.py                    # what was measured
    python benchmarks/heads.py smollm2            # 1 or 2 minutes on one core

Every head has: its retrieval score; what silencing it costs (the eight best by retrieval, 0 for the rest); the slope of
the answers' loss with respect to its log β (`strop/diagnosing/trial.py`); its critical β at SIZES[1] pairs and the β
that gap counting predicts from both sizes (`strop/diagnosing/gap_edge.py`). Each is compared with the shipped edge, its
log β, |log β| and |log output|, by Spearman's rank correlation, with 95 % intervals from draws of heads.

Then the predicted edge itself: exact answers at SIZES[1] pairs on other prompts, untouched and with it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from bluntness import correlate
from torch import Tensor

import strop
from strop.calibration.numbers import Numbers
from strop.diagnosing.asking import Asked, Contexts, answer_rows, exact, read_context
from strop.diagnosing.carriers import find_carriers, score_retrieval
from strop.diagnosing.curves import average_heads
from strop.diagnosing.gap_edge import predict_beta, predict_edge
from strop.diagnosing.groups import HeadPlace, read_group
from strop.diagnosing.plan import Questioning
from strop.diagnosing.sizes import draw_size
from strop.evaluation.paired import mcnemar_p
from strop.patching.freeze import freeze
from strop.patching.identity import heads_of
from strop.pretrained.load import open_model
from strop.tasks.answers import Reader, answer_loss

ROOT = Path(__file__).parents[1]
RESULT = Path(__file__).parent / "results" / "heads.json"
SIZES = (4, 32)
PROMPTS, TESTED, LEARNED, DRAWS = 24, 48, 2, 500


def measure(name: str) -> dict[str, Any]:
    """Everything of one model."""
    opened = open_model(name, None, None, False, "cpu", "float32")
    model, reader = opened.model, Reader(opened.tokenizer)
    plan, contexts = Questioning(prompts=PROMPTS), Contexts(model)
    passages = [draw_size(reader, "recall", size, plan) or [] for size in SIZES]
    groups = [read_group(contexts, each, "recall", size) for each, size in zip(passages, SIZES, strict=True)]
    places = [HeadPlace(i, one, head) for i, (one, n) in enumerate(heads_of(model).items()) for head in range(n)]
    cost = torch.zeros(len(places))
    for carrier in find_carriers(contexts, places, groups, passages):
        cost[carrier.index] = carrier.cost
    signs = {
        "retrieval": score_retrieval(groups), "cost": cost, "slope": find_slopes(model, passages[0][:LEARNED]),
        "critical β": average_heads(groups[1], "critical_beta"), "predicted β": predict_beta(*groups),
    }  # fmt: skip
    edge = strop.Edge.load(ROOT / "examples" / "edges" / f"{name}-recall.safetensors").heads()
    beta, output = (torch.tensor([row[key] for row in edge]).log() for key in ("beta", "output"))
    changed = {"log β": beta, "|log β|": beta.abs(), "|log output|": output.abs()}
    told = {f"{sign} ~ {change}": spearman(signs[sign], changed[change]) for sign in signs for change in changed}
    return {"model": name, "heads": len(places), "spearman": told, "edge": try_edge(model, reader, groups)}


def find_slopes(model: Any, passages: Sequence[Asked]) -> Tensor:
    """Return −∂loss/∂log β of every head: positive where sharpening helps."""
    with freeze(model):
        numbers = Numbers(model, "constant", outputs=False)
        with numbers.on(model):
            answer_loss(model, [asked.encoded for asked in passages]).backward()
    return -torch.cat([one.grad.flatten() for one in numbers.parameters() if one.grad is not None])


@torch.no_grad()
def try_edge(model: Any, reader: Reader, groups: Sequence[Any]) -> dict[str, Any]:
    """Exact answers on prompts of another seed, untouched and with the edge that gap counting predicts."""
    passages = draw_size(reader, "recall", SIZES[1], Questioning(prompts=TESTED, seed=1)) or []
    edge = predict_edge(model, *groups)
    before = [bool(one) for asked in passages for one in _ask(model, asked)]
    with edge.put_on(model):
        after = [bool(one) for asked in passages for one in _ask(model, asked)]
    betas = torch.tensor([row["beta"] for row in edge.heads()])
    return {
        "pairs": SIZES[1], "prompts": len(before), "untouched": sum(before), "predicted": sum(after),
        "p": round(mcnemar_p(before, after), 4), "median β": round(float(betas.median()), 3),
    }  # fmt: skip


def _ask(model: Any, asked: Asked) -> Tensor:
    return exact(asked, answer_rows(model, asked, read_context(model, asked)))


def spearman(first: Tensor, second: Tensor) -> list[float]:
    """Return Spearman's correlation, and its 2.5 and 97.5 % points over draws of heads."""
    draw, drawn = torch.Generator().manual_seed(0), []
    for _ in range(DRAWS):
        picked = torch.randint(len(first), (len(first),), generator=draw)
        drawn.append(correlate(first[picked].tolist(), second[picked].tolist()))
    ends = torch.tensor(drawn).nanquantile(torch.tensor([0.025, 0.975])).tolist()
    return [round(value, 3) for value in (correlate(first.tolist(), second.tolist()), *ends)]


def main() -> None:
    """Measure the models that are named, then tell."""
    kept = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
    for name in sys.argv[1:]:
        kept[name] = measure(name)
        RESULT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for record in kept.values():
        print(json.dumps(record, ensure_ascii=False))


if __name__ == "__main__":
    main()
