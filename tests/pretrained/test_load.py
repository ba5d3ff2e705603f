"""Opening a model and its tokeniser: frozen, in eval mode, once, and told plainly where it cannot be."""

from __future__ import annotations

import copy
from pathlib import Path

import folders
import pytest
import tiny
import torch
from tokenizers.processors import TemplateProcessing

from strop.errors import ArgumentError, SourceError
from strop.pretrained import Pretrained, load_model
from strop.pretrained.load import _begin_with_bos, count_positions, name_of, open_model
from strop.tasks.answers import Reader


def test_a_folder_is_opened(tmp_path: Path) -> None:
    folder = folders.save(tmp_path / "tiny")
    model, tokeniser = load_model(str(folder), head=False)
    assert type(model).__name__ == "LlamaModel"
    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert count_positions(model) == 256
    assert tokeniser("word3 word4")["input_ids"] == [6, 7]
    assert type(load_model(str(folder))[0]).__name__ == "LlamaForCausalLM"
    assert next(load_model(str(folder), "bfloat16")[0].parameters()).dtype == torch.bfloat16


def test_damaged_weights_are_told_plainly(tmp_path: Path) -> None:
    folder = folders.save(tmp_path / "tiny")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(SourceError, match="tiny must be a model that transformers can open, got: "):
        load_model(str(folder))


def test_a_model_by_name_is_opened_when_first_needed_and_then_kept(tmp_path: Path) -> None:
    wanted = Pretrained(str(tmp_path / "tiny"))
    with pytest.raises(SourceError, match="model must be an existing folder"):
        wanted.open()
    folders.save(tmp_path / "tiny")
    first = wanted.open()
    assert wanted.open() is first
    assert first.name == "tiny"
    assert "Llama" not in repr(wanted)


def test_a_verb_takes_a_model_with_its_tokeniser_or_a_name(tmp_path: Path) -> None:
    model, tokeniser = tiny.model(), tiny.tokeniser()
    assert open_model(model, tokeniser, None, False) == ("LlamaForCausalLM", model, tokeniser)
    assert open_model(model, tokeniser, "mine", False).name == "mine"
    folder = str(folders.save(tmp_path / "tiny"))
    assert open_model(folder, None, None, False).name == "tiny"
    assert open_model(folder, None, "mine", False).name == "mine"
    assert type(open_model(folder, None, None, False, head=False).model).__name__ == "LlamaModel"
    with pytest.raises(ArgumentError, match="tokenizer must be left out for a model by name, got Tok"):
        open_model(folder, tokeniser, None, False)
    with pytest.raises(ArgumentError, match=r"tokenizer must come with a model, got none\. Or give the model by name"):
        open_model(model, None, None, False)


def test_a_model_calls_itself_by_the_last_part_of_where_it_came_from(tmp_path: Path) -> None:
    model = tiny.model()
    assert name_of(model) == "LlamaForCausalLM"
    model.config._name_or_path = "owner/small"
    assert name_of(model) == "small"
    assert name_of(torch.nn.Linear(1, 1)) == "Linear"


def test_a_tokeniser_that_lost_its_first_token_gets_it_back_once() -> None:
    tokeniser = copy.deepcopy(tiny.tokeniser())
    plain = tokeniser("ab")["input_ids"]
    assert Reader(tokeniser).before == []
    for _ in range(2):
        _begin_with_bos(tokeniser)
        assert tokeniser("ab")["input_ids"] == [1, *plain]
        assert tokeniser("ab", add_special_tokens=False)["input_ids"] == plain
        assert Reader(tokeniser).before == [1]
    assert tiny.tokeniser()("ab")["input_ids"] == plain


def test_a_tokeniser_that_has_its_first_token_is_left_alone() -> None:
    tokeniser = copy.deepcopy(tiny.tokeniser())
    special = [("<s>", tokeniser.bos_token_id), ("</s>", tokeniser.eos_token_id)]
    tokeniser.backend_tokenizer.post_processor = TemplateProcessing(single="<s> $A </s>", special_tokens=special)
    before = tokeniser("ab")["input_ids"]
    _begin_with_bos(tokeniser)
    assert tokeniser("ab")["input_ids"] == before
    assert before[-1] == tokeniser.eos_token_id
