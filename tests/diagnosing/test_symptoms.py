"""Every symptom against a direct computation: the weights that transformers gives, and formulae written out."""

import math

import pytest
import tiny
import torch

from strop.diagnosing.asking import Said, answer_rows, ask, read_context
from strop.diagnosing.symptoms import MODEL_SYMPTOMS, SYMPTOMS
from strop.diagnosing.symptoms.accuracy import MatrixNorm, normalise
from strop.diagnosing.symptoms.collapse import LastTokens
from strop.diagnosing.trace import COLUMNS, texts_read, traced
from strop.tasks.passages import Passage

TEXT = "Oak is 77. Pear is 4. "


@pytest.fixture(scope="module")
def case():
    """One question: its numbers [r, heads, columns] and, by transformers, all weights [layers][heads, n, n]."""
    model = tiny.model()
    asked = ask(tiny.reader(), Passage(TEXT, (("Oak is", " 77"),), evidence=(((7, 9),),)))
    with torch.no_grad():
        cache = read_context(model, asked)
        with traced(model, asked, asked.targets) as trace:
            answer_rows(model, asked, cache)
        model.set_attn_implementation("eager")
        out = model(asked.tokens[:, :-1], output_attentions=True, output_hidden_states=True)
        model.set_attn_implementation("sdpa")
    rows = asked.context.shape[1] + asked.rows[0]
    weights = torch.cat([layer[0] for layer in out.attentions])
    return model, asked, trace.numbers()[0], weights, rows, out


def column(numbers, name):
    return numbers[..., COLUMNS.index(name)]


def test_reference_and_sinks_are_sums_of_transformers_weights(case):
    _, asked, numbers, weights, rows, _ = case
    tokens = asked.tokens[0]
    same = [i for i in range(1, len(tokens) - 1) if tokens[i] == tokens[i - 1]]
    assert same
    at = weights[:, rows]
    assert torch.allclose(column(numbers, "sink_first"), at[..., 0].mT, atol=1e-5)
    assert torch.allclose(column(numbers, "sink_repeated"), at[..., same].sum(-1).mT, atol=1e-5)
    held = asked.evidence[0, :-1].nonzero()[:, 0]
    assert torch.allclose(column(numbers, "reference"), at[..., held].sum(-1).mT, atol=1e-5)


def test_variance_and_rotary_share_are_those_of_the_layers_own_projections(case):
    model, _, numbers, weights, rows, out = case
    layer, heads, size = model.model.layers[0], 4, model.config.hidden_size // 4
    x = layer.input_layernorm(out.hidden_states[0])[0]
    q, k, v = (getattr(layer.self_attn, f"{name}_proj")(x).unflatten(-1, (-1, size)) for name in "qkv")
    groups = heads // k.shape[1]
    for h in range(heads):
        given = weights[h][rows] @ v[:, h // groups]
        expected = ((given - given.mean(-1, keepdim=True)) ** 2).mean(-1)
        assert torch.allclose(column(numbers, "variance")[:, h], expected, rtol=1e-3)
        for j, row in enumerate(rows.tolist()):
            half = size // 2
            pairs = [(q[row, h, [i, i + half]].norm(), k[:, h // groups, [i, i + half]].norm(dim=-1).mean())
                     for i in range(half)]  # fmt: skip
            share = torch.stack([a * b for a, b in pairs])
            share = share / share.sum()
            used = math.exp(-float((share * share.log()).sum())) / half
            assert float(column(numbers, "rotary")[j, h]) == pytest.approx(used, rel=1e-3)


def test_laplacian_eigenvalues_are_those_of_a_solver(case):
    model, asked, _, weights, _, _ = case
    with torch.no_grad(), texts_read(model) as read:
        model(asked.tokens[:, :-1], use_cache=False)
    found = torch.cat(read["laplacian"])
    n = weights.shape[-1]
    degrees = weights.double().sum(-2) / torch.arange(n, 0, -1)
    largest = torch.linalg.eigvals(torch.diag_embed(degrees) - weights.double()).real.amax(-1)
    assert torch.allclose(found.double(), largest, atol=1e-4)


def test_collapse_compares_two_readings():
    model = tiny.model()
    curve = LastTokens().measure(model, 40)
    assert list(curve) == [16, 32]
    with torch.no_grad():
        token = model.config.vocab_size // 4
        ids = torch.cat([token + 1 + torch.arange(8), torch.full((24,), token)])[None]
        long, short = (
            model(each, output_hidden_states=True).hidden_states[-1][0, -1].float() for each in (ids, ids[:, :-1])
        )
    assert curve[32] == pytest.approx(float((long - short).norm() / long.norm()), rel=1e-3)


def test_mano_is_the_fourth_norm_of_softmax_or_of_its_expansion(draw):
    logits = 3 * torch.randn(2, 3, 4000, generator=draw, dtype=torch.float64)
    symptom = MatrixNorm()
    score = symptom.join(symptom.measure(Said(logits, logits)))
    assert score == pytest.approx(float((logits.softmax(-1) ** 4).mean() ** 0.25))
    few = logits[..., :5]
    parts = 1 + few + few**2 / 2
    assert torch.allclose(normalise(few), parts / parts.sum(-1, keepdim=True))


def test_every_symptom_says_where_it_is_from():
    assert len({one.name for one in SYMPTOMS}) == len(SYMPTOMS) >= 9
    assert MODEL_SYMPTOMS
    for one in SYMPTOMS:
        assert "arXiv 2" in one.paper
        assert one.sentence.endswith(".")
        assert one.title
