"""A model folder as users have them: tiny, random, with a tokeniser of whole words."""

from __future__ import annotations

from pathlib import Path

from hf import families
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

WORDS = [f"word{i}" for i in range(90)]


def text(count: int) -> str:
    """A text of `count` tokens that repeats itself only slowly."""
    return " ".join(WORDS[(i * i + 3 * i) % 90] for i in range(count))


def save(folder: Path, family: str = "llama") -> Path:
    """Write a model and its tokeniser."""
    families.fresh(family).save_pretrained(folder)
    vocabulary = {word: i for i, word in enumerate(["<pad>", "<s>", "</s>", *WORDS])}
    tokeniser = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    tokeniser.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    PreTrainedTokenizerFast(tokenizer_object=tokeniser, **special).save_pretrained(folder)
    return folder
