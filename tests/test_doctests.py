"""Every example in a docstring runs and says the truth."""

import doctest
import importlib
from pathlib import Path

import pytest
import tiny

ROOT = Path(__file__).parents[1]
MODULES = [
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "src").rglob("*.py"))
    if "Examples:\n" in path.read_text()
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    module = importlib.import_module(name)
    given = vars(module) | {"model": tiny.model(), "tokenizer": tiny.tokeniser(), "edge": tiny.edge()}
    found = doctest.testmod(module, extraglobs=given, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 0
    assert found.failed == 0
