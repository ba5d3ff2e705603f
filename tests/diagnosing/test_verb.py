"""What a user meets who asks for a diagnosis: bad data by its line, what is kept, and words that fit what was found."""

import json

import pytest
import tiny

import strop
from strop.diagnosing.report import tabulate_symptoms
from strop.diagnosing.verdict import advise_next, write_diagnosis
from strop.errors import ArgumentError

GOOD = {"prompt": "Oak is 7. Pear is 4. Oak is", "answer": "7", "evidence": "7"}


def diagnose(task, model=None, tokenizer=None, **settings):
    settings = {"runs": None, "progress": False, "trial": False, **settings}
    return strop.diagnose(model or tiny.model(), tokenizer or tiny.tokeniser(), task, **settings)


def write(folder, *rows):
    path = folder / "own.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in (GOOD, *rows)))
    return path


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"size": -4}, 'line 2 must have a number as its "size", or none, got -4'),
        ({"size": "big"}, "line 2 must have a number as its \"size\", or none, got 'big'"),
        ({"size": float("inf")}, 'line 2 must have a number as its "size", or none, got inf'),
        (
            {"prompt": "Oak is 7. " * 30},
            r"line 2 must fit into 100 tokens, got 301. Shorten it. Read more with longest",
        ),
    ],
)
def test_a_bad_line_is_named(change, told, tmp_path):
    with pytest.raises(ArgumentError, match=told):
        diagnose(write(tmp_path, GOOD | change), longest=100)


def test_a_model_without_more_positions_is_not_to_be_read_with_longest(tmp_path):
    model = tiny.model(max_position_embeddings=64)
    with pytest.raises(
        ArgumentError, match=r"line 2 must fit into 64 tokens, got 301. Shorten it. The model has no more"
    ):
        diagnose(write(tmp_path, GOOD | {"prompt": "Oak is 7. " * 30}), model)
    with pytest.raises(
        ArgumentError, match=r"recall must fit into 64 tokens at its smallest size.*The model has no more"
    ):
        diagnose("recall", model)


def test_missing_evidence_is_told_before_a_model_is_opened():
    with pytest.raises(ArgumentError, match="pair 1 must say what its evidence is, got none"):
        strop.diagnose("no-such-model", task=[("Oak is 7. Oak is", "7", "7"), ("Oak is 7. Oak is", "7")], runs=None)


class Backwards:
    """A tokeniser that gives characters their numbers the other way round."""

    is_fast = False

    def __call__(self, text, **_):
        return {"input_ids": [98 - ord(each) % 90 for each in text]}


def test_what_another_tokeniser_read_is_not_taken_for_this_ones(tmp_path):
    task, model = [(GOOD["prompt"], "7", "7")] * 2, tiny.model()
    diagnose(task, model, runs=tmp_path)
    found, fresh = (diagnose(task, model, Backwards(), runs=runs) for runs in (tmp_path, None))
    assert found.answers == fresh.answers
    assert len(list(tmp_path.glob("diagnose/*/*.safetensors"))) == 2
    diagnose(task, model, runs=tmp_path)
    assert len(list(tmp_path.glob("diagnose/*/*.safetensors"))) == 2


def test_few_prompts_are_told_that_no_temperature_was_tried():
    found = diagnose([(GOOD["prompt"], "7", "7")], trial=True)
    assert found.verdict.startswith(
        "Whether temperatures mend LlamaForCausalLM was not tried: it takes more than 8 prompts"
    )
    assert "of 1 wrong answer on" in found.verdict


CAUSES = ("dispersion", "order", "sink", "collapse", "elsewhere", "unknown")
ROW = {"task": "recall", "size": 4, "tokens": 9, "prompts": 12, "exact": 0.0, **dict.fromkeys(CAUSES, 0)}


def test_a_cause_by_no_head_is_told_by_no_head():
    said = write_diagnosis("m", [ROW | {"wrong": 12, "failing": True, "unknown": 12}])
    assert "An unknown cause fails m: of 12 wrong answers" in said


def test_where_nothing_fails_the_next_thing_to_do_is_possible():
    causes = [ROW | {"wrong": 0, "failing": False, "exact": 1.0}]
    assert advise_next("m", causes, [], None, 8192)[1] == "strop diagnose m --longest 8192"
    assert advise_next("m", causes, [], None)[1] == "strop probe m"


def test_symptoms_are_compared_over_a_task_of_several_sizes():
    rows = [{"symptom": "critical_beta", "value": 1.0, "carriers": None, "size": 4, "task": task, "tokens": n}
            for task, n in (("recall", 64), ("recall", 128), ("passkey", 330))]  # fmt: skip
    assert tabulate_symptoms(rows).caption == "At the smallest and the largest size of recall"
    assert tabulate_symptoms(rows[2:]).caption == "At the smallest and the largest size of passkey"
