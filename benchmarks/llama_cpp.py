"""A GGUF file in llama.cpp (the package xllamacpp), measured as strop measures a model: same tokens, same questions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from strop.tasks.answers import Encoded

LIKELY = 1000
"""Tokens whose likelihood is asked for at first; all of them where the right one is not among these."""


class LlamaCpp:
    """A file that llama.cpp has opened, on the CPU.

    Args:
        path: The GGUF file.
        lora: A GGUF adapter to put on it. None: none.
        threads: Threads.
        context: Most tokens that it can read.
        exact: Keep keys and values in float32 and attend step by step, where llama.cpp has float16 and one fused step.
    """

    def __init__(
        self, path: Path, lora: Path | None = None, threads: int = 1, context: int = 4096, exact: bool = False
    ) -> None:
        import xllamacpp

        given = xllamacpp.CommonParams()
        given.model.path = str(path)
        given.n_ctx, given.n_parallel, given.warmup, given.verbosity, given.fit_params = context, 1, False, -1, False
        given.cpuparams.n_threads = given.cpuparams_batch.n_threads = threads
        if exact:
            given.cache_type_k = given.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
            given.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        if lora is not None:
            given.lora_adapters = [_adapter(xllamacpp, lora)]
        self.server = xllamacpp.Server(given)

    def follow(self, ids: Sequence[int], count: int, likely: int = 1) -> list[dict[str, Any]]:
        """Return the tokens that greedy decoding writes after these, each with the likeliest ones."""
        asked = {"prompt": list(ids), "n_predict": count, "temperature": 0, "n_probs": likely, "cache_prompt": True}
        found: list[dict[str, Any]] = self.server.handle_completions(asked)["choices"][0]["logprobs"]["content"]
        return found

    def answer(self, encoded: Encoded) -> list[bool]:
        """Say of each question of a passage whether greedy decoding writes its answer."""
        context, right = encoded.context[0].tolist(), []
        for ids, targets in zip(encoded.ids.tolist(), encoded.targets.tolist(), strict=True):
            first = targets.index(True)
            wanted = [token for token, asked in zip(ids, targets, strict=True) if asked]
            written = self.follow(context + ids[:first], len(wanted))
            right.append([token["id"] for token in written] == wanted)
        return right

    def score(self, ids: Tensor) -> float:
        """Return the mean loss of the tokens [n] but the first, in nats."""
        tokens = ids.tolist()
        return -sum(self._likelihood(tokens[:i], tokens[i]) for i in range(1, len(tokens))) / (len(tokens) - 1)

    def _likelihood(self, before: Sequence[int], token: int) -> float:
        for likely in (LIKELY, 1 << 20):
            top = self.follow(before, 1, likely)[0]["top_logprobs"]
            found = [one["logprob"] for one in top if one["id"] == token]
            if found:
                break
        return float(found[0])


def _adapter(xllamacpp: Any, path: Path) -> Any:
    made = xllamacpp.CommonAdapterLoraInfo()
    made.path, made.scale = str(path), 1.0
    return made
