"""Run EleutherAI's lm-evaluation-harness on a sharpened model: pip install 'strop[judge]'.

The harness gets the model itself, so inside the block every task of it runs on the sharpened model. Here the task is
defined locally, key–value recall as multiple choice. For tasks of the harness there is `strop evaluate --suite`.
An edge that bakes needs no block: save the baked model and run the harness's own command line on it.

    python examples/extras/lm_eval_harness.py examples/edges/smollm2-recall.safetensors
"""

import json
import sys
from pathlib import Path
from tempfile import mkdtemp

from lm_eval import simple_evaluate
from lm_eval.models.huggingface import HFLM
from transformers import PreTrainedModel, PreTrainedTokenizerBase

import strop
from strop.pretrained import load_model
from strop.tasks.catalogue import draw_passages


def recall_task(size: int, prompts: int) -> dict[str, object]:
    """Describe a task of the harness: the value of one key among `size`, chosen from those of four keys."""
    rows = []
    for passage in draw_passages("recall", "test", 0, (size,), ("room",), prompts, 4):
        choices = [answer for _, answer in passage.questions]
        rows.append({"prompt": passage.context + passage.questions[0][0], "choices": choices, "label": 0})
    path = Path(mkdtemp()) / "recall.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return {
        "task": f"recall_{size}", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(path)}},
        "test_split": "test", "output_type": "multiple_choice", "doc_to_text": "prompt", "doc_to_choice": "choices",
        "doc_to_target": "label", "target_delimiter": "", "metric_list": [{"metric": "acc"}],
    }  # fmt: skip


def accuracy(model: PreTrainedModel, tokeniser: PreTrainedTokenizerBase, task: dict[str, object]) -> float:
    """Return what the harness says of the model as it stands."""
    lm = HFLM(pretrained=model, tokenizer=tokeniser, batch_size=1, max_length=1024)
    found = simple_evaluate(model=lm, tasks=[task], bootstrap_iters=0, log_samples=False)
    return float(found["results"][task["task"]]["acc,none"])


if __name__ == "__main__":
    edge = strop.Edge.load(sys.argv[1])
    model, tokeniser = load_model("smollm2")
    task = recall_task(size=16, prompts=20)
    print(f"untouched {accuracy(model, tokeniser, task):.2f}")
    with strop.sharpened(model, edge):
        print(f"sharpened {accuracy(model, tokeniser, task):.2f}")
