"""What a diagnosis costs: time against a plain forward pass over the same prompts, and memory against length.

    python benchmarks/diagnose.py time            # 24 prompts of some 2,000 tokens, one thread; 2 minutes
    python benchmarks/diagnose.py memory          # most memory while a prompt of 512, 1,024 and 2,048 tokens is read
    python benchmarks/diagnose.py                 # what was measured

The prompts are recall's, one question each, as a user's own would be. A plain pass reads each prompt and its answer
once and keeps no logits but the last. For time, the model is SmolLM2's first LAYERS layers: a layer costs what it costs
in the whole. So cut it answers nothing, so heads are tried whatever their retrieval score, and all that a diagnosis can
do is done: eight heads silenced, the carriers sharpened, every symptom measured; and, told apart, the trial.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import strop
from strop.diagnosing import carriers
from strop.diagnosing.asking import ask
from strop.diagnosing.groups import read_group
from strop.patching.freeze import freeze
from strop.pretrained.load import open_model
from strop.tasks.answers import Reader
from strop.tasks.catalogue import draw_passages

RESULT = Path(__file__).parent / "results" / "diagnose.json"
MODEL, LAYERS, PROMPTS, PAIRS, LONGEST = "smollm2", 3, 24, 164, 2048
LENGTHS = {512: 40, 1024: 82, 2048: 164}


def draw_prompts(count: int, pairs: int) -> list[tuple[str, str, str]]:
    """Prompts of one question each, and their evidence."""
    made = []
    for passage in draw_passages("recall", "test", 0, (pairs,), ("code",), count, 1):
        (question, answer), ((start, stop),) = passage.questions[0], passage.evidence[0]
        made.append((passage.context + question, answer, passage.context[start:stop]))
    return made


def seconds(work: Callable[[], object]) -> float:
    """Processor time."""
    start = time.process_time()
    work()
    return time.process_time() - start


def measure_time() -> dict[str, Any]:
    """Seconds of a plain pass, of a diagnosis without its trial, and of one with it."""
    opened = open_model(MODEL, None, None, False, "cpu", "float32")
    model: Any = opened.model
    model.model.layers, model.config.num_hidden_layers = model.model.layers[:LAYERS], LAYERS
    carriers.LEAST = 0.0
    prompts, reader = draw_prompts(PROMPTS, PAIRS), Reader(opened.tokenizer)
    texts = [torch.tensor([reader.before + reader.tokens(text + answer)]) for text, answer, _ in prompts]

    @torch.no_grad()
    def read() -> None:
        for ids in texts:
            model(input_ids=ids, use_cache=False, logits_to_keep=1)

    def diagnose(trial: bool) -> None:
        given = {"longest": LONGEST, "trial": trial, "runs": None, "progress": False}
        strop.diagnose(model, opened.tokenizer, prompts, **given)

    plain, without, whole = (seconds(work) for work in (read, lambda: diagnose(False), lambda: diagnose(True)))
    return {
        "prompts": PROMPTS, "tokens": max(one.shape[1] for one in texts), "plain, s": round(plain, 1),
        "diagnosis, s": round(without, 1), "diagnosis / plain": round(without / plain, 2),
        "with trial / plain": round(whole / plain, 2),
    }  # fmt: skip


def measure_memory() -> dict[str, Any]:
    """Most memory of a process that reads one prompt, less that of one that only opened the model, in MB."""
    runs = [[sys.executable, __file__, "one", str(pairs)] for pairs in (0, *LENGTHS.values())]
    most = [int(subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()[-1]) for run in runs]
    return {
        "memory, MB": {length: round((one - most[0]) / 1024) for length, one in zip(LENGTHS, most[1:], strict=True)}
    }


def read_one(pairs: int) -> None:
    """Read one prompt as a diagnosis does, and print the most memory that was used, in kB."""
    opened = open_model(MODEL, None, None, False, "cpu", "float32")
    if pairs:
        passages = draw_passages("recall", "test", 0, (pairs,), ("code",), 1, 1)
        with freeze(opened.model):
            read_group(opened.model, [ask(Reader(opened.tokenizer), passages[0])], "recall", pairs)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def main() -> None:
    """Measure what is named, then tell."""
    torch.set_num_threads(1)
    what = sys.argv[1] if len(sys.argv) > 1 else ""
    if what == "one":
        read_one(int(sys.argv[2]))
        return
    kept = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
    measures = {"time": measure_time, "memory": measure_memory}
    kept |= measures[what]() if what else {}
    RESULT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(kept))


if __name__ == "__main__":
    main()
