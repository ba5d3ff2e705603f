"""How a model reads passages: likelihoods, exact answers, leads."""

import copy

import pytest
import tiny
import torch

from strop.pretrained.load import _begin_with_bos
from strop.tasks.answers import Reader, answer_loss, answer_questions, measure_leads
from strop.tasks.passages import Passage
from strop.tasks.prose import cut_windows

CONTEXT = "oak: 41\nfir: 73\n"
QUESTIONS = (("oak:", " 41"), ("The fir is", " 7"), ("elm", " 123"))


@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt2"])
def test_the_cache_gives_what_each_question_alone_gives(family):
    model = tiny.model(family) if family != "gpt2" else tiny.model(family, n_positions=128)
    reader = tiny.reader()
    together = answer_questions(model, reader.encode(Passage(CONTEXT, QUESTIONS)))
    for i, question in enumerate(QUESTIONS):
        (alone,) = answer_questions(model, reader.encode(Passage(CONTEXT, (question,))))
        assert together[i].exact == alone.exact
        assert together[i].tokens == alone.tokens == len(question[1])
        assert together[i].log_likelihood == pytest.approx(alone.log_likelihood, abs=2e-3)


@pytest.mark.parametrize("cached", [1, 40])
def test_a_few_questions_at_a_time_give_what_all_together_give(cached, monkeypatch):
    model, encoded = tiny.model(), tiny.reader().encode(Passage(CONTEXT, QUESTIONS))
    with torch.no_grad():
        together = measure_leads(model, encoded)
        monkeypatch.setattr("strop.tasks.answers.CACHED", cached)
        apart = measure_leads(model, encoded)
    assert len(together) == sum(len(answer) for _, answer in QUESTIONS)
    assert torch.allclose(together, apart, atol=1e-5)


def test_likelihood_is_that_of_the_whole_text():
    model, reader = tiny.model(), tiny.reader()
    (found,) = answer_questions(model, reader.encode(Passage(CONTEXT, QUESTIONS[:1])))
    ids = torch.tensor([reader.tokens(CONTEXT + "oak: 41")])
    scores = model(ids).logits[0, :-1].log_softmax(-1).gather(-1, ids[0, 1:, None])
    assert found.log_likelihood == pytest.approx(float(scores[-3:].sum()), abs=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_exact_is_what_greedy_decoding_writes(seed):
    model, reader = tiny.model(seed=seed), tiny.reader()
    ids = torch.tensor([reader.tokens(CONTEXT + "oak:")])
    written = model.generate(ids, max_new_tokens=3, do_sample=False)[0, ids.shape[1] :]
    text = tiny.tokeniser().decode(written).replace(" ", "") if 3 not in written else None
    passage = reader.encode(Passage(CONTEXT, (("oak:", " 41"),)))
    passage.ids[0, -3:] = written  # the answer is now what the model writes
    assert answer_questions(model, passage)[0].exact, text
    passage.ids[0, -1] = (written[-1] + 1) % 90 + 3
    assert not answer_questions(model, passage)[0].exact


def test_the_loss_is_the_mean_over_answer_tokens():
    model, reader = tiny.model(), tiny.reader()
    batch = [reader.encode(Passage(CONTEXT, QUESTIONS)), reader.encode(Passage("", (("elm is", " 9"),)))]
    found = [one for encoded in batch for one in answer_questions(model, encoded)]
    wanted = -sum(one.log_likelihood for one in found) / sum(one.tokens for one in found)
    assert float(answer_loss(model, batch)) == pytest.approx(wanted, abs=1e-4)


def test_a_first_token_is_put_before_a_passage_once():
    own = copy.deepcopy(tiny.tokeniser())
    _begin_with_bos(own)
    plain, first = Reader(tiny.tokeniser()), Reader(own)
    assert plain.before == []
    assert first.before == [1]
    assert first.encode(Passage("ab", (("c", "d"),))).context.tolist() == [[1, *plain.tokens("a")]]
    assert cut_windows(first, "abcdefgh", 4, 2).tolist() == [[1, *plain.tokens("abc")], [1, *plain.tokens("fgh")]]
    with pytest.raises(ValueError, match="must have words"):
        plain.encode(Passage("", (("", "a"),)))
    with pytest.raises(ValueError, match="the text must hold at least 9 tokens, got 8"):
        cut_windows(plain, "abcdefgh", 9, 1)
    assert len(cut_windows(plain, "abcdefgh", 3, 5)) == 5
    apart = cut_windows(plain, "abcdefgh", 3, 5, apart=True)
    assert apart.tolist() == [plain.tokens("abc"), plain.tokens("fgh")]


def test_a_lead_is_over_the_best_other_token():
    model, reader = tiny.model(), tiny.reader()
    passage = Passage("The code of oak is 41. ", (("The code of oak is", " 41"), ("The code of elm is", " 4")))
    encoded = reader.encode(passage)
    found = measure_leads(model, encoded)
    first, second = answer_questions(model, encoded)
    assert bool((found[: first.tokens] > 0).all()) == first.exact
    assert bool((found[first.tokens :] > 0).all()) == second.exact
    ids = torch.cat([encoded.context, encoded.ids[:1]], 1)
    logits = model(ids).logits[0, encoded.context.shape[1] :]
    at = int(encoded.targets[0].nonzero()[0]) - 1
    token = int(encoded.ids[0, at + 1])
    best = max(float(value) for i, value in enumerate(logits[at]) if i != token)
    assert float(found[0]) == pytest.approx(float(logits[at, token]) - best, abs=1e-4)
