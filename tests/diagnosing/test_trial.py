"""One step of temperatures: what it is, and that it is tried on prompts that it was not made from."""

import planted
import pytest
import tiny
import torch

from strop.diagnosing import trial
from strop.diagnosing.asking import Contexts, answer_rows, ask
from strop.diagnosing.verdict import advise_next, write_diagnosis
from strop.tasks.answers import answer_loss
from strop.tasks.passages import Passage


def passages(count):
    pairs = [(f"Oak is {i}. Pear is 4. ", ("Oak is", f" {i}")) for i in range(count)]
    return [ask(tiny.reader(), Passage(text, (pair,), evidence=(((7, 8),),))) for text, pair in pairs]


def test_what_calibration_reads_of_a_passage_is_the_same():
    passage = Passage(
        "Oak is 77. Pear is 4. ", (("Oak is", " 77"), ("Pear is", " 4")), evidence=(((7, 9),), ((18, 19),))
    )
    asked, encoded = ask(tiny.reader(), passage), tiny.reader().encode(passage)
    assert all(
        torch.equal(one, other)
        for one, other in zip(*(vars(each).values() for each in (asked.encoded, encoded)), strict=True)
    )
    model = tiny.model()
    single = Passage(passage.context, passage.questions[:1], evidence=passage.evidence[:1])
    losses = [answer_loss(model, [one]) for one in (ask(tiny.reader(), single).encoded, tiny.reader().encode(single))]
    assert float(losses[0]) == pytest.approx(float(losses[1]), rel=1e-5)


def test_a_step_goes_down_its_gradient_by_so_much():
    numbers = torch.nn.Parameter(torch.zeros(3, 1))
    numbers.grad = torch.tensor([[2.0], [-4.0], [0.0]])
    trial.step_down([numbers])
    assert numbers.flatten().tolist() == pytest.approx([-0.25, 0.5, 0.0])


def test_it_is_tried_on_other_prompts_and_leaves_the_model_alone():
    model = tiny.model()
    before = model(torch.arange(3, 20)[None]).logits
    right = torch.tensor([False] * trial.LEARNED + [True, False, True])
    found = trial.try_temperature(model, passages(trial.LEARNED + 3), right)
    assert (found["learned"], found["tested"], found["wrong"]) == (trial.LEARNED, 3, 1)
    assert torch.equal(model(torch.arange(3, 20)[None]).logits, before)
    assert trial.try_temperature(model, passages(trial.LEARNED), right) is None


def test_the_last_contexts_are_read_once():
    model, reads = tiny.model(), []
    model.register_forward_pre_hook(lambda *_: reads.append(1))
    contexts, (first, second, third) = Contexts(model, 2), passages(3)
    caches = [contexts.read(one) for one in (first, second)]
    said = answer_rows(model, first, caches[0]).logits
    assert contexts.read(first) is caches[0]
    assert torch.equal(answer_rows(model, first, caches[0]).logits, said)  # asking leaves the cache as it is
    contexts.read(third)
    assert [contexts.holds(one) for one in (first, second, third)] == [False, True, True]
    assert len(reads) == 5


@pytest.mark.parametrize(("fault", "mends"), [("dispersion", True), ("elsewhere", False)])
def test_it_mends_dispersion_and_no_wrong_read_out(fault, mends):
    found = planted.diagnose_planted(fault, 1)
    tried = found.trials[0]
    assert (tried["mended"] > tried["wrong"] / 2) is mends, tried
    assert (found.advice[1] == "strop.calibrate(model, tokenizer, task=prompts)") is mends
    assert f"makes {tried['mended']} of {tried['wrong']} wrong answers right" in found.verdict


def test_what_was_tried_counts_for_more_than_the_causes():
    cause = {"task": "recall", "size": 4, "tokens": 9, "wrong": 10, "prompts": 12, "failing": True, "exact": 0.2}
    causes = [cause | dict.fromkeys(("dispersion", "sink", "collapse", "order", "unknown"), 0) | {"elsewhere": 10}]
    tried = {"task": "recall", "mended": 6, "wrong": 10, "broken": 1, "tested": 12}
    assert advise_next("m", causes, [tried], None)[1] == "strop calibrate m --task recall"
    assert advise_next("m", causes, [tried | {"mended": 1}], None)[1] == "strop probe m"
    said = write_diagnosis("m", causes, [tried])
    assert said.startswith(
        "Temperatures mend m: one step, made from other prompts, makes 6 of 10 wrong answers right and"
    )
    assert "1 attends to the evidence and answers" in write_diagnosis("m", [causes[0] | {"elsewhere": 1, "order": 9}])
