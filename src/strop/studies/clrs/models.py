"""The models of the study, each with the normaliser it is trained or tested with, ready to be called.

A decoder starts from weights that depend on algorithm and seed, never on the normaliser. A pretrained model keeps its
weights and learns low-rank changes of its projections. In both, what a normaliser learns is learned along.

A normaliser is softmax, adaptive (arXiv 2410.01104) or ssmax (arXiv 2501.19399), or an edge: softmax with
β = max(0, 1 + a + b·log(n/256)) for each head, to be calibrated on a model that is trained already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from strop._checks import require_known
from strop.edges.temperatures import LogLength
from strop.normalisers import Normaliser, by_name
from strop.studies.clrs.batches import TextCoder
from strop.studies.clrs.configs import ClrsTraining, DecoderShape, LoraShape
from strop.studies.clrs.text.catalogue import find_algorithm
from strop.studies.clrs.text.vocabulary import Vocabulary
from strop.studies.networks.decoder import Decoder, DecoderConfig
from strop.studies.networks.seeding import build_seeded
from strop.studies.problems.streams import stream

EDGE = "edge"
NORMALISERS = ("softmax", "adaptive", "ssmax", EDGE)
RULE = "normaliser"
"""Part of the names of what a normaliser learns."""


@dataclass(frozen=True)
class Learner:
    """A model that takes (tokens, asked), its coder, and what of it is learned, by name."""

    model: nn.Module
    coder: TextCoder
    learned: dict[str, nn.Parameter]

    @property
    def rules(self) -> dict[str, nn.Parameter]:
        """What its normalisers learn."""
        return {name: value for name, value in self.learned.items() if RULE in name}

    def load(self, weights: dict[str, Tensor]) -> None:
        """Take over trained numbers; what an edge learns, and nothing else, may be missing."""
        for name, value in self.learned.items():
            if name in weights:
                value.data.copy_(weights[name])
            else:
                assert RULE in name, name


def make_rule(name: str, heads: int) -> Normaliser:
    """A normaliser for one layer."""
    require_known("normaliser", name, NORMALISERS)
    if name == EDGE:
        return LogLength(torch.zeros(heads, LogLength.count))
    return by_name(name, heads=heads) if name == "ssmax" else by_name(name)


@contextmanager
def open_learner(training: ClrsTraining, rule: str | None = None) -> Iterator[Learner]:
    """The model as it starts, with the normaliser it is trained with or another."""
    name = rule or training.normaliser
    if isinstance(training.shape, DecoderShape):
        yield _make_decoder(training, training.shape, name)
    else:
        with _open_pretrained(training, training.shape, name) as learner:
            yield learner


def _make_decoder(training: ClrsTraining, shape: DecoderShape, rule: str) -> Learner:
    coder = Vocabulary(find_algorithm(training.algorithm))
    config = DecoderConfig(len(coder), **asdict(shape))
    generator = stream("initial weights", training.algorithm, training.seed)
    model = Decoder(config, lambda: make_rule(rule, shape.heads), generator)
    return Learner(model, coder, dict(model.named_parameters()))


@contextmanager
def _open_pretrained(training: ClrsTraining, shape: LoraShape, rule: str) -> Iterator[Learner]:
    from peft import LoraConfig, inject_adapter_in_model

    from strop.patching.sharpen import sharpened
    from strop.patching.sites import find_sites
    from strop.pretrained.load import open_model

    opened = open_model(shape.model, None, None, False, "cpu", "float32")
    inner = opened.model.eval().requires_grad_(False)
    config = LoraConfig(
        r=shape.rank, lora_alpha=2 * shape.rank, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"]
    )
    generator = stream("initial weights", training.algorithm, training.seed)
    build_seeded(lambda: inject_adapter_in_model(config, inner), generator)
    heads = int(inner.config.num_attention_heads)
    rules = {name: make_rule(rule, heads) for name in find_sites(inner).choose(None)}
    learned = {name: value for name, value in inner.named_parameters() if "lora_" in name}
    for site, made in rules.items():
        learned |= {f"{site}.{RULE}.{name}": value for name, value in made.named_parameters()}
    for value in learned.values():
        value.requires_grad_(True)
    with sharpened(inner, rules):
        yield Learner(_AnswersOnly(inner), _Tokeniser(opened.tokenizer), learned)


class _AnswersOnly(nn.Module):
    """A language model whose head is asked where something is asked, and nowhere else."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, tokens: Tensor, asked: Tensor) -> Tensor:
        """Logits [answers, vocabulary]."""
        hidden = self.inner.base_model(tokens, use_cache=False).last_hidden_state
        return cast(Tensor, self.inner.get_output_embeddings()(hidden[asked]))


class _Tokeniser:
    """A pretrained model's tokeniser as a coder."""

    def __init__(self, tokeniser: Any) -> None:
        self.tokeniser = tokeniser
        self._write: Callable[[list[int]], str] = tokeniser.decode

    @property
    def end(self) -> int:
        """Any token will do where nobody looks."""
        return int(self.tokeniser.eos_token_id)

    def encode(self, text: str) -> list[int]:
        """Text to tokens, without any of its own."""
        return list(self.tokeniser(text, add_special_tokens=False)["input_ids"])

    def digit_places(self, tokens: Sequence[int]) -> list[int]:
        """How many digits in a row end with each token."""
        places: list[int] = []
        for i, token in enumerate(tokens):
            follows = i > 0 and self._write([token]).isdigit() and places[-1] >= 0
            places.append(places[-1] + 1 if follows else 0)
        return places
