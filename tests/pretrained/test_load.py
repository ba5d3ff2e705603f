"""Opening a model and its tokeniser: frozen, in eval mode, once, and told plainly where it cannot be."""

from __future__ import annotations

import copy
from pathlib import Path

import folders
import pytest
import tiny
import torch
import transformers
from tokenizers.processors import TemplateProcessing

from strop.errors import ArgumentError, SourceError, StropWarning
from strop.pretrained import Pretrained, load_model
from strop.pretrained.load import _begin_with_bos, count_positions, go_beyond, name_of, open_model
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


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [("model.safetensors", None, "the weights of tiny must open in transformers, got this from config.json and"),
     ("config.json", b"{", "the weights of tiny must open in transformers"),
     ("tokenizer.json", b'{"model": {"type": "Unheard"}}', "the tokeniser of tiny must open in transformers")],
)  # fmt: skip
def test_what_other_libraries_say_is_told_whole_with_the_files(tmp_path: Path, file: str, content, words: str) -> None:
    folder = folders.save(tmp_path / "tiny")
    damaged = folder / file
    damaged.write_bytes(damaged.read_bytes()[:1000] if content is None else content)
    with pytest.raises(SourceError, match=words) as told:
        load_model(str(folder))
    assert str(told.value.__cause__).strip() in str(told.value)
    assert f"{file}" in str(told.value) or "*.safetensors" in str(told.value)
    assert str(folder) in str(told.value)


def test_a_model_by_name_is_opened_when_first_needed_and_then_kept(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="model must be an existing folder"):
        Pretrained(str(tmp_path / "tiny"))  # told at once, not when it is needed
    wanted = Pretrained(str(folders.save(tmp_path / "tiny")))
    first = wanted.open()
    assert wanted.open() is first
    assert first.name == "tiny"
    assert "Llama" not in repr(wanted)


@pytest.mark.parametrize(("family", "table"), [("llama", False), ("gpt2", True)])
def test_beyond_its_positions_a_model_guesses_or_has_none(family: str, table: bool) -> None:
    model = tiny.model(family) if family == "llama" else transformers.GPT2LMHeadModel(
        transformers.GPT2Config(n_layer=1, n_head=1, n_embd=8, n_positions=64, vocab_size=9)
    )  # fmt: skip
    most = count_positions(model)
    go_beyond((8, most), model)  # says nothing
    if table:
        with pytest.raises(ArgumentError, match=r"at most the model's 64 positions, .*got 65\. It looks them up in"):
            go_beyond((8, most + 1), model)
    else:
        with pytest.warns(StropWarning, match="1,025 tokens are beyond the 1,024 positions"):
            go_beyond((8, most + 1), model)


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
