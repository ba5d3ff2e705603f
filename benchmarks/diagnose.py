"""What a diagnosis costs: time against a plain forward pass over the same prompts, and memory against length.

    python benchmarks/diagnose.py time            # 12 prompts of some 2,040 tokens, one thread; 3 minutes
    python benchmarks/diagnose.py trial           # what the trial costs on top, a prompt; 2 minutes
    python benchmarks/diagnose.py memory          # most memory while a prompt of 512 to 4,096 tokens is read; Linux
    python benchmarks/diagnose.py                 # what was measured

The model is SmolLM2. The prompts are recall's, one question each, as a user's own would be: nothing is shared, which is
the dearest case. A plain pass reads each prompt and its answer once and keeps no logits but the last. Times are
processor time. A diagnosis without its trial does everything else: every head measured at every answer, eight heads
silenced, the carriers sharpened, every symptom.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import strop
from strop.calibration.numbers import Numbers
from strop.diagnosing import trial
from strop.diagnosing.asking import Asked, Contexts, answer_rows, ask, read_context
from strop.diagnosing.groups import read_group
from strop.diagnosing.plan import Questioning
from strop.patching.freeze import freeze
from strop.pretrained.load import Pretrained, open_model
from strop.tasks.answers import Reader, answer_loss
from strop.tasks.catalogue import draw_passages

RESULT = Path(__file__).parent / "results" / "diagnose.json"
MODEL, PROMPTS, PAIRS, LONGEST = "smollm2", 12, 184, 2048
LENGTHS = {512: 44, 1024: 91, 2048: 184, 4096: 340}


def draw_prompts(count: int, pairs: int) -> list[tuple[str, str, str]]:
    """Prompts of one question each, and their evidence."""
    made = []
    for passage in draw_passages("recall", "test", 0, (pairs,), ("code",), count, 1):
        (question, answer), ((start, stop),) = passage.questions[0], passage.evidence[0]
        made.append((passage.context + question, answer, passage.context[start:stop]))
    return made


def draw_asked(reader: Reader, count: int, pairs: int) -> list[Asked]:
    """The same prompts as a diagnosis reads them."""
    return [ask(reader, passage) for passage in draw_passages("recall", "test", 0, (pairs,), ("code",), count, 1)]


def seconds(work: Callable[[], object]) -> float:
    """Processor time."""
    start = time.process_time()
    work()
    return time.process_time() - start


@torch.no_grad()
def read_plainly(model: Any, passages: list[Asked]) -> None:
    """Read every prompt and its answer once."""
    for asked in passages:
        model(input_ids=asked.tokens, use_cache=False, logits_to_keep=1)


def measure_time(opened: Pretrained) -> dict[str, Any]:
    """Seconds of a plain pass and of a diagnosis without its trial."""
    model, asked = opened.model, draw_asked(Reader(opened.tokenizer), PROMPTS, PAIRS)
    read_plainly(model, asked[:1])
    plain = seconds(lambda: read_plainly(model, asked))
    found: list[Any] = []
    given = {"longest": LONGEST, "trial": False, "runs": None, "progress": False}
    prompts = draw_prompts(PROMPTS, PAIRS)
    whole = seconds(lambda: found.append(strop.diagnose(model, opened.tokenizer, prompts, **given)))
    return {
        "prompts": PROMPTS, "tokens": max(one.tokens.shape[1] for one in asked), "plain, s": round(plain, 1),
        "diagnosis, s": round(whole, 1), "diagnosis / plain": round(whole / plain, 3),
        "heads that carry answers": sum(bool(row["carries"]) for row in found[0].heads),
        "wrong answers": found[0].causes[0]["wrong"],
    }  # fmt: skip


def measure_trial(opened: Pretrained) -> dict[str, Any]:
    """What a prompt costs from which the step is made, and one on which it is tried, in plain passes over a prompt."""
    model, asked = opened.model, draw_asked(Reader(opened.tokenizer), 2, PAIRS)
    read_plainly(model, asked[:1])
    plain = seconds(lambda: read_plainly(model, asked))
    with freeze(model):
        numbers = Numbers(model, "constant", outputs=False)
        with numbers.on(model):
            learned = seconds(lambda: answer_loss(model, [one.encoded for one in asked]).backward()) / plain
            with torch.no_grad():
                tested = seconds(lambda: [answer_rows(model, one, read_context(model, one)) for one in asked]) / plain
    prompts = Questioning.prompts
    whole = (trial.LEARNED * learned + min(trial.TESTED, prompts - trial.LEARNED) * tested) / prompts
    return {
        "trial: a prompt learned from / plain": round(learned, 2), "a prompt tested / plain": round(tested, 2),
        f"trial of {prompts} prompts / plain": round(whole, 2),
    }  # fmt: skip


def measure_memory(opened: Pretrained) -> dict[str, Any]:
    """Most memory while one prompt is read plainly and by a diagnosis, beyond the opened model's own, in MB."""
    model, reader, told = opened.model, Reader(opened.tokenizer), {}
    ways: dict[str, Callable[[list[Asked]], object]] = {
        "plain": lambda asked: read_plainly(model, asked),
        "diagnosis": lambda asked: read_group(Contexts(model), asked, "recall", 1),
    }
    for way in ways.values():
        way(draw_asked(reader, 1, 4))  # what is loaded at first use
    before = _settle()
    for length, pairs in LENGTHS.items():
        asked = draw_asked(reader, 1, pairs)
        told[length] = {"tokens": asked[0].tokens.shape[1]}
        for name, way in ways.items():
            _settle()
            way(asked)
            told[length][name] = round((_read_status("VmHWM") - before) / 1024)
    return {"memory, MB": told}


def _settle() -> int:
    """Give back what is free, forget the most that was used, and return what is used, in kB; on Linux."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return _read_status("VmRSS")


def _read_status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(name)))


MEASURES = {"time": measure_time, "trial": measure_trial, "memory": measure_memory}


def main() -> None:
    """Measure what is named, then tell."""
    torch.set_num_threads(1)
    kept = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
    for what in sys.argv[1:]:
        kept |= MEASURES[what](open_model(MODEL, None, None, False, "cpu", "float32"))
        RESULT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(kept))


if __name__ == "__main__":
    main()
