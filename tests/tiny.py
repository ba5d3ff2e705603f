"""A tiny model and a tokeniser of single characters, so that real prompts can be read in milliseconds."""

from __future__ import annotations

import gc
import string
from functools import cache
from pathlib import Path

import families
import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from torch import nn
from transformers import PreTrainedTokenizerFast

from strop.edges import Edge
from strop.edges.temperatures import Constant
from strop.patching.identity import heads_of
from strop.tasks.answers import Reader

CHARACTERS = [*string.printable[:95], "\n"]


@cache
def tokeniser() -> PreTrainedTokenizerFast:
    vocabulary = {word: i for i, word in enumerate(["<pad>", "<s>", "</s>", *CHARACTERS])}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    made.pre_tokenizer = pre_tokenizers.Split(Regex("[\\s\\S]"), "isolated")
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    return PreTrainedTokenizerFast(tokenizer_object=made, **special)


def model(family: str = "llama", seed: int = 0, **changes: object) -> nn.Module:
    """A fresh frozen model that knows the characters."""
    sizes = {"vocab_size": 99, "max_position_embeddings": 1024}
    return families.fresh(family, seed, **(sizes | changes)).requires_grad_(False)


def reader() -> Reader:
    return Reader(tokeniser())


def prose(count: int, length: int, seed: int = 0) -> list[torch.Tensor]:
    """Random windows of tokens."""
    draw = torch.Generator().manual_seed(seed)
    return [torch.randint(3, 99, (1, length), generator=draw) for _ in range(count)]


def save(folder: Path) -> Path:
    """A model folder as users have them."""
    model().save_pretrained(folder)
    tokeniser().save_pretrained(folder)
    return folder


@cache
def edge() -> Edge:
    """An edge for the tiny model that sharpens every head a little."""
    made = model()
    rules = {name: Constant(torch.full((heads, 1), 0.1)) for name, heads in heads_of(made).items()}
    return Edge.of(made, {"constant": rules})


def threads_alive() -> list[str]:
    """Return the names of this process's threads, where the system tells."""
    gc.collect()
    tasks = Path("/proc/self/task")
    return [(task / "comm").read_text().strip() for task in tasks.iterdir()] if tasks.exists() else []
