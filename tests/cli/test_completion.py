"""What a shell offers for an unfinished word."""

import pytest
from click.shell_completion import ShellComplete

from strop.cli import group


def offered(*words: str) -> list[str]:
    *before, last = words
    found = ShellComplete(group.strop, {}, "strop", "_STROP_COMPLETE").get_completions(list(before), last)
    return [item.value for item in found if item.type == "plain"]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [(("pro",), ["probe"]),
     (("probe", "smol"), ["smollm2"]),
     (("calibrate", "smollm2", "--task", "pass"), ["passkey"]),
     (("calibrate", "smollm2", "--task", "te"), ["text"]),
     (("evaluate", "smollm2", "--task", "look"), ["lookup", "lookup-similar", "lookup-nouns"]),
     (("calibrate", "smollm2", "--form", "po"), ["power-n", "polynomial"]),
     (("calibrate", "smollm2", "--form", "au"), ["auto"]),
     (("calibrate", "smollm2", "--guard", "recall,cou"), ["recall,counting"]),
     (("arena", "--tasks", "copy,need"), ["copy,needle"]),
     (("arena", "--normalisers", "softm"), ["softmax"])],
)  # fmt: skip
def test_models_tasks_forms_and_normalisers_are_offered(words, wanted):
    assert offered(*words) == wanted
