"""A model folder as users have them: tiny, random, with a tokeniser of whole words."""

from __future__ import annotations

from pathlib import Path

import families
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

WORDS = [f"word{i}" for i in range(90)]


def text(count: int) -> str:
    """A text of `count` tokens that repeats itself only slowly."""
    return " ".join(WORDS[(i * i + 3 * i) % 90] for i in range(count))


def tokeniser() -> PreTrainedTokenizerFast:
    """A tokeniser of whole words, which puts nothing before a text or after it."""
    vocabulary = {word: i for i, word in enumerate(["<pad>", "<s>", "</s>", *WORDS])}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    return PreTrainedTokenizerFast(tokenizer_object=made, **special)


def save(folder: Path, family: str = "llama") -> Path:
    """Write a model and its tokeniser."""
    families.fresh(family).save_pretrained(folder)
    tokeniser().save_pretrained(folder)
    return folder
