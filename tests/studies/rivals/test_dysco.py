"""DySCO against its definition: every row anew over the whole text, with transformers' own weights and masks."""

import json
import math
from dataclasses import replace

import pytest
import tiny
import torch

from strop.normalisers import Softmax
from strop.pretrained.load import Opened
from strop.studies.rivals import RivalBoard, retrieval_heads, run_board
from strop.studies.rivals.dysco import Dysco, Raised, make_dysco, stepwise
from strop.studies.rivals.retrieval_heads import draw_documents, find_heads, score_heads
from strop.tasks.answers import answer_questions
from strop.tasks.builtin.lookup import PHRASINGS
from strop.tasks.catalogue import find_task, generator_of
from strop.tasks.passages import Passage, sample

RULE = Dysco(share=0.8, remembered=4)
"""With weights as even as a tiny model's, a share that leaves some keys out; and a memory that has to begin in time."""

BOTH = [(0, 1), (1, 0), (1, 3)]
"""Retrieval heads, in two layers."""

WINDOW = 24
CONTEXT = "The oak is 17. The fig is 25. The yew is 38. "
PASSAGES = {
    "one question": Passage(CONTEXT, (("The fig is", " 25"),)),
    "two questions": Passage(CONTEXT, (("The fig is", " 25"), ("And the yew is", " 38"))),
    "a short question": Passage(CONTEXT, (("fig", " 25"), ("yew", " 38"))),
}


def model(family="llama"):
    changes = {"sliding_window": WINDOW} if family == "gemma3" else {}
    return tiny.model(family, **changes).double().eval()


def by_name(heads):
    found = {}
    for layer, head in heads:
        found.setdefault(f"model.layers.{layer}.self_attn", []).append(head)
    return found


def masks(family, bias):
    """Additive masks of one text [n, n] as transformers takes them: causal, with a window, and what is raised."""
    n = len(bias)
    distance = torch.arange(n)[:, None] - torch.arange(n)
    full = bias.masked_fill(distance < 0, -torch.inf)[None, None]
    if family != "gemma3":
        return full
    return {"full_attention": full, "sliding_attention": full.masked_fill(distance >= WINDOW, -torch.inf)}


def define(model, family, heads, rule, ids, first, asked):
    """Logits [asked rows, tokens] of one text; `first` is the row before the answer, `begin` where memory begins."""
    model.set_attn_implementation("eager")
    n = len(ids)
    bias, memory = torch.zeros(n, n, dtype=torch.float64), [0.0] * n
    begin, last = max(asked["begin"], first + 1 - rule.remembered), asked["rows"][-1]
    for i in range(begin, last + 1):
        out = model(input_ids=ids[None], attention_mask=masks(family, bias), output_attentions=True)
        weights = [out.attentions[layer][0, head, i] for layer, head in heads]
        found = [(sum(float(w[j]) for w in weights) / len(heads)) + rule.decay * memory[j] for j in range(i + 1)]
        memory = [one / sum(found) for one in found] + [0.0] * (n - i - 1)
        if i < max(asked["begin"], first + 1 - rule.raised):
            continue
        order, total = sorted(range(i + 1), key=lambda j: -memory[j]), 0.0
        for place, j in enumerate(order[: rule.most]):
            total += memory[j]
            if (total <= rule.share or place == 0) and j > 0:
                bias[i, j] = math.log(rule.strength)
        bias[i, i] = math.log(rule.strength)
    logits = model(input_ids=ids[None], attention_mask=masks(family, bias)).logits[0]
    model.set_attn_implementation("sdpa")
    return logits[asked["rows"]], bias


@pytest.mark.parametrize("kind", PASSAGES)
@pytest.mark.parametrize(
    ("family", "heads"), [("llama", BOTH), ("gemma3", BOTH), ("gemma3", [(0, 2)])], ids=["llama", "gemma3", "window"]
)
def test_answers_are_read_as_the_definition_says(family, heads, kind):
    made, encoded = model(family), tiny.reader().encode(PASSAGES[kind])
    with torch.no_grad(), stepwise(made, by_name(heads), RULE):
        answers = answer_questions(made, encoded)
    shared = encoded.context.shape[1]
    start = int(encoded.targets.any(0).long().argmax()) - 1  # the last row of the shortest question
    for ids, targets, answer in zip(encoded.ids, encoded.targets, answers, strict=True):
        rows = [shared + i - 1 for i in targets.nonzero()[:, 0].tolist()]
        asked = {"rows": rows, "begin": 0 if len(encoded.ids) == 1 else shared}
        text = torch.cat([encoded.context[0], ids[: int(targets.nonzero()[-1])]])
        with torch.no_grad():
            logits, bias = define(made, family, heads, RULE, text, shared + start, asked)
            plain = made(input_ids=text[None]).logits[0, rows]
        assert 0 < (bias[rows[0]] > 0).sum() < rows[0]
        right = logits.log_softmax(-1).gather(-1, ids[targets][:, None])[:, 0]
        assert answer.log_likelihood == pytest.approx(float(right.sum()), rel=1e-5)
        assert (logits - plain).abs().max() > 1e-3
        untouched = plain.log_softmax(-1).gather(-1, ids[targets][:, None])[:, 0]
        assert abs(answer.log_likelihood - float(untouched.sum())) > 1e-4


def test_a_strength_of_one_changes_nothing():
    made, encoded = model(), tiny.reader().encode(PASSAGES["two questions"])
    before = [one.log_likelihood for one in answer_questions(made, encoded)]
    with stepwise(made, by_name(BOTH), replace(RULE, strength=1.0)):
        after = [one.log_likelihood for one in answer_questions(made, encoded)]
    assert after == pytest.approx(before, rel=1e-6)


def test_raised_keys_weigh_twice_as_much_against_the_others(draw):
    logits = torch.randn(2, 3, 1, 9, generator=draw, dtype=torch.float64)
    by = math.log(2) * (torch.rand(2, 12, generator=draw) < 0.4)
    weights = Raised(by).weights(logits)
    for b, h in [(0, 0), (1, 2)]:
        parts = [math.exp(logits[b, h, 0, j]) * (2 if by[b, 3 + j] else 1) for j in range(9)]
        expected = torch.tensor([part / sum(parts) for part in parts], dtype=torch.float64)
        torch.testing.assert_close(weights[b, h, 0], expected)
    assert torch.equal(Raised(torch.zeros(2, 9)).weights(logits), Softmax().weights(logits))


def test_the_largest_of_the_memory_are_raised_and_the_rows_own_key_and_never_the_first():
    raised = Dysco(share=0.7).raise_by(torch.tensor([[0.3, 0.1, 0.25, 0.2, 0.1, 0.05], [0.1, 0.8, 0.0, 0.1, 0.0, 0.0]]))
    assert (raised > 0).tolist() == [[False, False, True, False, False, True], [False, True, False, False, False, True]]
    assert raised.max() == pytest.approx(math.log(2))
    few = Dysco(most=1).raise_by(torch.tensor([[0.2, 0.3, 0.4, 0.1]]))
    assert (few > 0).tolist() == [[False, False, True, True]]


def test_memory_fades_and_has_sum_one():
    memory = Dysco().remember(torch.tensor([[0.6, 0.4]]), torch.tensor([[0.2, 0.3, 0.5]]))
    torch.testing.assert_close(memory, torch.tensor([[0.65, 0.6, 0.5]]) / 1.75)


def test_texts_are_read_as_they_are_and_the_model_is_restored():
    made, ids, last = model(), torch.arange(3, 40)[None], torch.tensor([36])
    before = made(input_ids=ids).logits
    with stepwise(made, by_name(BOTH), RULE):
        assert torch.equal(made(input_ids=ids).logits, before)
        assert not torch.allclose(made(input_ids=ids, logits_to_keep=last).logits, before[:, 36:])
    assert "forward" not in vars(made)
    assert torch.equal(made(input_ids=ids, logits_to_keep=last).logits, before[:, 36:])


def test_the_model_is_restored_after_an_error():
    made = model()
    with pytest.raises(IndexError, match="index out of range"), stepwise(made, by_name(BOTH), RULE):
        made(input_ids=torch.tensor([[3, 4, 10**6]]), logits_to_keep=torch.tensor([2]))
    assert "forward" not in vars(made)


def test_scores_are_the_weights_from_the_question_on_the_sentence_that_it_asks_for():
    made, reader = model(), tiny.reader()
    passages = draw_documents(3, seed=0)[:2]
    assert {passage.phrasing for passage in passages} == {"code", "list"}
    scores = score_heads(made, reader, passages)
    made.set_attn_implementation("eager")
    expected = torch.zeros(2, 4, dtype=torch.float64)
    for passage in passages:
        for (question, answer), (span,) in zip(passage.questions, passage.evidence, strict=True):
            assert passage.context[slice(*span)].endswith(answer + "." * (passage.phrasing == "code"))
            text = reader.before + reader.tokens(passage.context + question)
            weights = made(input_ids=torch.tensor([text]), output_attentions=True).attentions
            first, shift = len(text) - len(question), len(reader.before)  # a token is a character
            for layer in range(2):
                part = weights[layer][0, :, first:, shift + span[0] : shift + span[1]]
                expected[layer] += part.sum(-1).mean(-1) / sum(len(one.questions) for one in passages)
    found = torch.stack([scores[f"model.layers.{layer}.self_attn"] for layer in range(2)])
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-7)


def test_documents_are_of_the_train_split(monkeypatch):
    monkeypatch.setattr(retrieval_heads, "PASSAGES", 24)
    found = draw_documents(8, seed=5)
    written = [name for name, one in PHRASINGS.items() if one.split == "train" and name != "drawn"]
    assert [one.phrasing for one in found] == [*written, "code"]
    (first,) = sample(find_task("lookup"), 1, 8, ["code"], generator_of("train", 5), 8)
    assert (found[0].context, found[0].questions) == (first.context, first.questions)


def test_heads_are_the_best_and_found_once(tmp_path, monkeypatch):
    opened = Opened("tiny", tiny.model(max_position_embeddings=2048), tiny.tokeniser())
    board = RivalBoard(sizes=(4,), pairs=(2, 3))
    assert make_dysco(opened, board, tmp_path, False) is None
    made = make_dysco(opened, board, tmp_path, True)
    (kept,) = tmp_path.iterdir()
    scores = [score for *_, score in json.loads(kept.read_text())["heads"]]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 8  # all there are
    best = find_heads(opened.model, tiny.reader(), 3, 0, 2)
    assert [score for *_, score in best] == pytest.approx(scores[:2])
    monkeypatch.setattr(retrieval_heads, "score_heads", None)
    assert make_dysco(opened, board, tmp_path, False).digest == made.digest


def test_the_board_leaves_out_what_says_nothing_of_it(tmp_path):
    opened = Opened("tiny", tiny.model(max_position_embeddings=2048), tiny.tokeniser())
    board = RivalBoard(
        sizes=(4,), prompts=2, questions=2, counting=4, prose=(24,), windows=2, tokens=(), pairs=(2, 3)
    )  # fmt: skip
    _, found = run_board(opened, board, ["dysco"], tmp_path).found
    assert [str(cell) for cell in found.cells] == ["made", "look-up 4", "counting 4"]
    assert "forward" not in vars(opened.model)
