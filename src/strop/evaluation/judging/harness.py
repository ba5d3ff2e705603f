"""The one file that knows lm-evaluation-harness (extra `judge`): its documents, its generation, its scores.

The harness gets the model itself, so that whatever is put on the model is judged. Documents are drawn with the
harness's own seeds (`seed` is added to them), greedy answers are generated and scored by its code.
"""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import Tensor, nn

from strop._checks import require
from strop.errors import ArgumentError
from strop.evaluation.judging.bench import RULER, BenchCell
from strop.evaluation.judging.early_end import EarlyEnd
from strop.records import Record

Tick = Callable[[int], None]

SEED = 1234
"""What the harness adds to no seed of its own: numpy's and that of few-shot examples. Python's is 0."""

BATCHED_TOKENS, LARGEST_BATCH = 8192, 8
"""Documents that are read together: a step of generation reads all weights once, for one document or for eight."""


def batch_of(cell: BenchCell) -> int:
    """Return how many documents are read together."""
    return 1 if cell.tokens is None else min(LARGEST_BATCH, max(1, BATCHED_TOKENS // cell.tokens))


@contextlib.contextmanager
def open_harness(tokenizer: Any, offline: bool = True) -> Iterator[Harness]:
    """Give the harness a folder with the tokeniser, by which RULER measures its documents, and take it away again.

    RULER also looks for, and would fetch, what cuts essays into sentences. `offline` gives it an empty folder instead:
    none of its tasks that are made up offline has an essay.
    """
    import nltk

    with TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        if offline:
            (Path(folder) / "tokenizers" / "punkt_tab").mkdir(parents=True)
        nltk.data.path.append(folder)
        try:
            yield Harness(tokenizer, folder)
        finally:
            nltk.data.path.remove(folder)


class Harness:
    """lm-evaluation-harness with one tokeniser."""

    def __init__(self, tokenizer: Any, folder: str) -> None:
        self._tokenizer, self._folder = copy.deepcopy(tokenizer), folder  # the harness gives it a token to pad with
        self._managers: dict[int | None, Any] = {}

    def draw(self, cell: BenchCell, seed: int) -> Any:
        """Return the cell's tasks with their documents, always the same for a seed."""
        import numpy as np

        states = random.getstate(), np.random.get_state()
        sys.modules.pop("lm_eval.tasks.ruler.cwe_utils", None)  # it keeps a random state from one call to the next
        random.seed(seed)
        np.random.seed(SEED + seed)
        try:
            with _hush():
                found = self._manager(cell.tokens).load([cell.task])
        except KeyError:
            raise ArgumentError(f"suite must name a task of lm-evaluation-harness, got {cell.task!r}.") from None
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])
        for task in found["tasks"].values():
            if task.get_config("num_fewshot") is None:
                task.set_config(key="num_fewshot", value=0)
            task.set_fewshot_seed(seed=SEED + seed)
        return found

    def score(
        self, model: nn.Module, tasks: Any, cell: BenchCell, documents: int, tick: Tick = lambda _: None
    ) -> list[Record]:
        """Return a record for every document: which, its score and what was answered."""
        from lm_eval.evaluator import evaluate

        with _hush():
            judged = _make_model(model, self._tokenizer, cell, tick)
            found = evaluate(judged, tasks, limit=documents, bootstrap_iters=0, log_samples=True)
        if cell.tokens is None:
            tick(documents)
        return [row for name, samples in found["samples"].items() for row in _read(name, cell, samples)]

    def _manager(self, tokens: int | None) -> Any:
        from lm_eval.tasks import TaskManager

        if tokens not in self._managers:
            lengths = {} if tokens is None else {"max_seq_lengths": [tokens]}
            self._managers[tokens] = TaskManager(metadata={"tokenizer": self._folder, **lengths})
        return self._managers[tokens]


def _make_model(model: nn.Module, tokenizer: Any, cell: BenchCell, tick: Tick) -> Any:
    """The harness's own model of a transformer, which ends early where that changes no score."""
    from lm_eval.models.huggingface import HFLM

    class Judged(HFLM):  # type: ignore[misc]  # it brings no types
        wanted: Mapping[tuple[int, ...], Sequence[str]] = {}

        def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = True) -> list[str]:
            if cell.task in RULER and self.tokenizer.eos_token_id is not None:
                tokens = (self.tok_batch_encode([one.args[0]])[0][0].tolist() for one in requests)
                self.wanted = {tuple(row): one.doc["outputs"] for row, one in zip(tokens, requests, strict=True)}
            return list(super().generate_until(requests, disable_tqdm=True))

        def _model_generate(self, context: Tensor, max_length: int, stop: list[str], **given: Any) -> Tensor:
            ending = EarlyEnd(self.wanted, context, given["attention_mask"], self.tokenizer)
            out: Tensor = super()._model_generate(context, max_length, stop, logits_processor=[ending], **given)
            if cell.tokens is not None:
                tick(len(context))
            return out

    return Judged(pretrained=model, tokenizer=tokenizer, batch_size=batch_of(cell))


def _read(name: str, cell: BenchCell, samples: Sequence[Mapping[str, Any]]) -> list[Record]:
    """Records of one task's samples: its first metric by its first filter, or RULER's at the cell's length."""
    first = [one for one in samples if one["filter"] == samples[0]["filter"]]
    metrics = first[0]["metrics"]
    metric = str(cell.tokens) if str(cell.tokens) in metrics else metrics[0]
    rows: list[Record] = []
    for one in sorted(first, key=lambda one: int(one["doc_id"])):
        score = one[metric]
        rule = f"the metric {metric} of {name} must be a number for each document"
        require(isinstance(score, int | float), rule, type(score).__name__, "Choose another task")
        said = one["filtered_resps"][0]
        answer = said if isinstance(said, str) else None
        rows.append({"task": name, "document": str(one["doc_hash"]), "score": float(score), "answer": answer})
    return rows


@contextlib.contextmanager
def _hush() -> Iterator[None]:
    """The harness draws bars, prints and logs for its own command line."""
    loggers = [logging.getLogger(name) for name in ("lm_eval", "datasets", "evaluate")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
