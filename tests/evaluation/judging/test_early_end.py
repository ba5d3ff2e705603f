"""A generation ends once everything that is looked for is written, and not before."""

import tiny
import torch

from strop.evaluation.judging.early_end import EarlyEnd

PROMPTS = ["aXb?", "cYd?"]


def rows(*texts: str) -> torch.Tensor:
    return torch.tensor([tiny.tokeniser()(text).input_ids for text in texts])


def after(first: str, second: str, wanted: dict[str, list[str]]) -> torch.Tensor:
    """Which tokens may follow in two rows; the second prompt stands behind a padding token."""
    prompts = rows(*PROMPTS)
    keep = torch.ones_like(prompts)
    prompts[1, 0], keep[1, 0] = 0, 0
    known = {tuple(rows(prompt)[0].tolist()): answers for prompt, answers in wanted.items()}
    processor = EarlyEnd(known, prompts, keep, tiny.tokeniser())
    written = torch.cat([prompts, rows(first, second)], 1)
    scores = torch.randn(2, 99, generator=torch.Generator().manual_seed(0))
    found = processor(written, scores.clone())
    assert torch.equal(found[0], scores[0]) or found[0].isfinite().sum() == 1
    return found.isfinite().sum(1)


def test_a_row_ends_when_all_its_answers_stand_in_its_text():
    wanted = {"aXb?": ["q"], "Yd?": ["R", "s"]}
    assert after("..", "..", wanted).tolist() == [99, 99]
    assert after(".q", ".s", wanted).tolist() == [1, 99]
    assert after("..", "sr", wanted).tolist() == [99, 1]  # whatever the case, as RULER compares


def test_an_answer_in_the_prompt_does_not_count():
    assert after("..", "..", {"aXb?": ["x"], "Yd?": ["d"]}).tolist() == [99, 99]


def test_a_prompt_that_is_not_known_goes_on():
    assert after("q.", "s.", {"other": ["q"]}).tolist() == [99, 99]
    assert after("q.", "s.", {"aXb?": []}).tolist() == [99, 99]


def test_only_the_end_is_left():
    processor = EarlyEnd({tuple(rows("a")[0].tolist()): ["q"]}, rows("a"), torch.ones(1, 1), tiny.tokeniser())
    assert processor(rows("aq"), torch.zeros(1, 99))[0].argmax() == tiny.tokeniser().eos_token_id
