"""What is done with each model: the columns of the table. Each returns tensors that must stay as they were."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sweep.inputs import Inputs

PADDED, NEW, CHUNK, WINDOW_KINDS = 4, 5, 5, ("sliding_attention", "chunked_attention")


@dataclass(frozen=True)
class Case:
    """A model and a batch that it takes."""

    model: nn.Module
    inputs: Inputs
    kind: str

    @property
    def decodes(self) -> bool:
        """Whether it is a decoder that reads text only from the left, so that padding belongs there."""
        return "attention_mask" in self.inputs and "decoder_input_ids" not in self.inputs

    @property
    def padded_text(self) -> bool:
        """Whether there is a text with a mask of its own shape."""
        ids, mask = self.inputs.get("input_ids"), self.inputs.get("attention_mask")
        return ids is not None and mask is not None and ids.shape == mask.shape

    def pad(self, side: str) -> Inputs:
        """The batch with the last text padded."""
        places = slice(0, PADDED) if side == "left" else slice(-PADDED, None)
        changed = {name: self.inputs[name].clone() for name in ("input_ids", "attention_mask")}
        for tensor in changed.values():
            tensor[-1, places] = 0
        return self.inputs | changed


@dataclass(frozen=True)
class Column:
    """One way of using a model; `missing` says why it does not apply, or nothing."""

    run: Callable[[Case], list[Tensor]]
    missing: Callable[[Case], str | None]


def floats(output: Any) -> list[Tensor]:
    """Every float tensor of an output but caches and attention weights."""
    if isinstance(output, Tensor):
        return [output] if output.is_floating_point() else []
    if isinstance(output, dict):
        kept = [value for name, value in output.items() if "attentions" not in name and "past" not in name]
        return [tensor for value in kept for tensor in floats(value)]
    return [tensor for part in output for tensor in floats(part)] if isinstance(output, (list, tuple)) else []


@torch.no_grad()
def _forward(case: Case) -> list[Tensor]:
    return floats(case.model(**case.inputs))


def _padded(side: str) -> Callable[[Case], list[Tensor]]:
    @torch.no_grad()
    def run(case: Case) -> list[Tensor]:
        inputs = case.pad(side)
        mask = inputs["attention_mask"].bool()
        # what a model makes of padding is nobody's business
        return [out[mask] if out.shape[:2] == mask.shape else out for out in floats(case.model(**inputs))]

    return run


def _gradient(case: Case) -> list[Tensor]:
    model, draw = case.model, torch.Generator().manual_seed(4)
    model.zero_grad()
    outs = [out for out in floats(model(**case.inputs)) if out.requires_grad]
    sum((out * torch.randn(out.shape, generator=draw).to(out)).sum() for out in outs).backward()  # type: ignore[union-attr]
    found = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    model.zero_grad()
    return found


def _generate(**settings: Any) -> Callable[[Case], list[Tensor]]:
    @torch.no_grad()
    def run(case: Case) -> list[Tensor]:
        inputs = case.pad("left") if case.padded_text and case.decodes else dict(case.inputs)
        begun = inputs.pop("decoder_input_ids", None)
        fixed = {"max_new_tokens": NEW, "min_new_tokens": NEW, "do_sample": False, "num_beams": 1, "pad_token_id": 0,
                 "output_logits": True, "return_dict_in_generate": True, "disable_compile": True}  # fmt: skip
        first = {"bos_token_id": 1} if begun is None else {"bos_token_id": 1, "decoder_start_token_id": 1}
        out = case.model.generate(**inputs, **(fixed | first | settings))  # type: ignore[operator]
        return [*floats(out.logits), out.sequences.float()]

    return run


def _never(case: Case) -> None:
    return None


def _without_text(case: Case) -> str | None:
    return None if case.padded_text else "no text with a mask"


def _without_generate(case: Case) -> str | None:
    can = getattr(case.model, "can_generate", bool)()
    return None if can and callable(getattr(case.model, "generate", None)) else "does not generate"


def _without_window(case: Case) -> str | None:
    text = case.model.config.get_text_config(decoder=True)  # type: ignore[union-attr,operator]
    kinds = vars(text).get("layer_types") or ()
    windowed = vars(text).get("sliding_window") or any(kind in WINDOW_KINDS for kind in kinds)
    return _without_generate(case) or (None if windowed else "no sliding window")


def _without_quantiser(case: Case) -> str | None:
    found = any(importlib.util.find_spec(name) for name in ("optimum.quanto", "hqq") if _parent(name))
    return _without_generate(case) or (None if found else "not run: needs optimum-quanto or hqq")


def _parent(name: str) -> bool:
    return importlib.util.find_spec(name.partition(".")[0]) is not None


def _without_accelerator(case: Case) -> str | None:
    found = torch.accelerator.is_available()
    return _without_generate(case) or (None if found else "not run: needs an accelerator")


def _without_own_words(case: Case) -> str | None:
    """Chunks are cut from text alone."""
    return _without_generate(case) or (None if case.kind == "text" and case.decodes else "reads more than text")


COLUMNS = {
    "forward": Column(_forward, _never),
    "padded left": Column(_padded("left"), _without_text),
    "padded right": Column(_padded("right"), _without_text),
    "dynamic": Column(_generate(cache_implementation="dynamic"), _without_generate),
    "static": Column(_generate(cache_implementation="static"), _without_generate),
    "sliding": Column(_generate(cache_implementation="sliding_window"), _without_window),
    "offloaded": Column(_generate(cache_implementation="offloaded"), _without_accelerator),
    "quantised": Column(_generate(cache_implementation="quantized"), _without_quantiser),
    "beam": Column(_generate(num_beams=2), _without_generate),
    "chunked": Column(_generate(prefill_chunk_size=CHUNK), _without_own_words),
    "gradient": Column(_gradient, _never),
    "statistics": Column(_forward, _never),
    "doubled": Column(_forward, _never),
}
