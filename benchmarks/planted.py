"""Models whose fault is known, because it was built in: does `strop.diagnose` name it?

    python benchmarks/planted.py               # five faults × 20 seeds; prints how many verdicts name the fault
    python benchmarks/planted.py collapse      # one fault

A prompt is pairs of a key and a value, then a key: `<s> k3 v1 k7 v5 … k3`, and the answer is `v1`. The first layer
copies the token before (by its position), the second finds the value whose key is the question's, and the head writes
it. Every weight is set by hand. The faults:

    dispersion   the right key comes first by too little: many others outweigh it
    order        for some keys another key's value comes first
    sink         for some keys the first token comes first
    elsewhere    attention is right, and some values are written as another
    collapse     attention is right, and some values end in the same state but for one part in 10,000
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter
from typing import Any

import torch
from torch import Tensor

import strop

FAULTS = ("dispersion", "order", "sink", "elsewhere", "collapse")
KEYS, VALUES, CODE, PLACES = 64, 8, 96, 160
SIZES = (4, 48)
PROMPTS, SEEDS = 24, 20


def tokeniser() -> Any:
    """A token for each word."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["<pad>", "<s>", *(f"k{i}" for i in range(KEYS)), *(f"v{i}" for i in range(VALUES))]
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<pad>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", pad_token="<pad>")


def draw_prompts(seed: int) -> list[tuple[str, str, str]]:
    """Prompts of both sizes; the evidence is the pair that is asked for."""
    draw = torch.Generator().manual_seed(seed)
    made = []
    for size in SIZES:
        for _ in range(PROMPTS):
            keys = torch.randperm(KEYS, generator=draw)[:size].tolist()
            values = torch.randint(VALUES, (size,), generator=draw).tolist()
            at = int(torch.randint(size, (), generator=draw))
            pairs = [f"k{key} v{value}" for key, value in zip(keys, values, strict=True)]
            text = f"<s> {' '.join(pairs)} k{keys[at]}"
            made.append((text, f"v{values[at]}", f" {pairs[at]} "))
    return made


def build(fault: str, seed: int) -> Any:
    """A GPT-2 of two layers with one head each, whose weights are set."""
    from transformers import GPT2Config, GPT2LMHeadModel

    draw = torch.Generator().manual_seed(1000 + seed)
    key, previous, value, out, here = (0, KEYS, 2 * KEYS, 2 * KEYS + VALUES, 2 * KEYS + 2 * VALUES)
    before, first = here + CODE, here + 2 * CODE
    width = first + 1
    config = GPT2Config(vocab_size=2 + KEYS + VALUES, n_positions=PLACES, n_embd=width, n_layer=2, n_head=1,
                        tie_word_embeddings=False, bos_token_id=1, eos_token_id=1, pad_token_id=0)  # fmt: skip
    model = GPT2LMHeadModel(config).eval().requires_grad_(False)
    for name, weight in model.named_parameters():
        weight.fill_(float("ln_" in name and name.endswith("weight")))
    words, places = model.transformer.wte.weight, model.transformer.wpe.weight
    words[2 : 2 + KEYS, key : key + KEYS] = torch.eye(KEYS)
    words[2 + KEYS :, value : value + VALUES] = torch.eye(VALUES)
    words[1, first] = 1.0
    codes = torch.randn(PLACES, CODE, generator=draw)
    codes = codes / codes.norm(dim=1, keepdim=True)
    places[:, here : here + CODE] = codes
    places[1:, before : before + CODE] = codes[:-1]
    scale = float(width**0.5)
    one, two = (block.attn for block in model.transformer.h)
    _join(one, before, here, torch.eye(CODE) * 40, scale)
    _carry(one, key, previous, torch.eye(KEYS) * 3)
    _join(two, key, previous, _matches(fault, draw), scale)
    if fault == "sink":
        resting = torch.randperm(KEYS, generator=draw)[: KEYS // 2]
        _join(two, key, first, torch.full((KEYS, 1), -1.0).index_fill(0, resting, 1.0) * 40, scale, KEYS)
    written, read = _output(fault)
    _carry(two, value, out, written * 20)
    model.transformer.ln_f.weight.fill_(0.0)
    model.transformer.ln_f.weight[out : out + VALUES] = 1.0
    model.lm_head.weight[2 + KEYS :, out : out + VALUES] = read
    return model


def _matches(fault: str, draw: torch.Generator) -> Tensor:
    """How well each question's key [KEYS] fits each pair's key [KEYS]."""
    fits = torch.eye(KEYS) * (0.14 if fault == "dispersion" else 8.0)
    if fault == "order":
        misled = torch.randperm(KEYS, generator=draw)[: KEYS // 2]
        fits[misled] += (
            16.0 * torch.eye(KEYS)[(misled + 1 + torch.randint(KEYS - 1, misled.shape, generator=draw)) % KEYS]
        )
    return fits


def _output(fault: str) -> tuple[Tensor, Tensor]:
    """What a value becomes [VALUES, VALUES], and how it is read."""
    written, read = torch.eye(VALUES), torch.eye(VALUES)
    half = VALUES // 2
    if fault == "elsewhere":
        read = torch.cat([read[:half], read[half:].roll(1, 0)])
    if fault == "collapse":
        written[half:] = 1e-4 * written[half:]
        written[half:, half] += 1.0
    return written, read


def _join(attention: Any, query: int, key: int, fits: Tensor, scale: float, at: int = 0) -> None:
    """Let logits be query section · fits · key section; `at` is where in the head the products are formed."""
    width, (rows, columns) = attention.embed_dim, fits.shape
    weight = attention.c_attn.weight
    weight[query : query + rows, at : at + columns] += fits * scale**0.5 / 4
    weight[key : key + columns, width + at : width + at + columns] += torch.eye(columns) * scale**0.5 / 4


def _carry(attention: Any, source: int, target: int, how: Tensor) -> None:
    """Let the head's value be a section of what it reads, written into another section."""
    width, (rows, columns) = attention.embed_dim, how.shape
    attention.c_attn.weight[source : source + rows, 2 * width : 2 * width + columns] += how
    attention.c_proj.weight[:columns, target : target + columns] += torch.eye(columns)


def diagnose_planted(fault: str, seed: int) -> strop.diagnosing.Diagnosis:
    """Diagnose one planted model."""
    return strop.diagnose(build(fault, seed), tokeniser(), draw_prompts(seed), runs=None, name=f"{fault} {seed}")


def main() -> None:
    """Print how many of 20 verdicts name the fault."""
    warnings.simplefilter("error")
    for fault in sys.argv[1:] or FAULTS:
        named = Counter(str(diagnose_planted(fault, seed).cause) for seed in range(SEEDS))
        print(json.dumps({"fault": fault, "seeds": SEEDS, "named": named[fault], "verdicts": named}), flush=True)


if __name__ == "__main__":
    main()
