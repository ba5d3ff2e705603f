"""Which tasks, lengths and documents a model is judged by."""

import pytest

from strop.errors import ArgumentError
from strop.evaluation.judging.bench import RULER, Bench, BenchCell


def test_ruler_is_six_tasks_at_four_lengths():
    cells = Bench.of("ruler").cells()
    assert len(cells) == 24
    assert [cell.task for cell in cells[:6]] == list(RULER)
    assert {cell.tokens for cell in cells} == {1024, 2048, 4096, 8192}


def test_any_task_of_the_harness_has_a_cell():
    assert Bench.of("lm-eval:arc_easy,piqa").cells() == [BenchCell("arc_easy", None), BenchCell("piqa", None)]
    assert Bench.of("lm-eval:niah_multivalue", (4096,)).cells() == [BenchCell("niah_multivalue", 4096)]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("rulers",), "suite must be ruler or lm-eval:TASK, got 'rulers'"),
        (("lm-eval:",), "suite must be ruler or lm-eval:TASK"),
        (("ruler", (512,)), "lengths of RULER must be at least 1,024 tokens, got 512"),
        (("ruler", (1024, 1024)), "lengths must"),
        (("ruler", None, 0), "prompts must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_asked_is_refused(given, words):
    with pytest.raises(ArgumentError, match=words):
        Bench.of(*given)
