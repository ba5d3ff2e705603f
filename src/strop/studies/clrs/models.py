"""The models of the study, each with the normaliser it is trained or tested with, ready to be called.

A decoder starts from weights that depend on the seed, never on the normaliser. A pretrained model keeps its
weights and learns low-rank changes of its projections. In both, what a normaliser learns is learned along.

A normaliser is softmax, adaptive (arXiv 2410.01104) or ssmax (arXiv 2501.19399), or an edge: softmax with
β = max(0, 1 + a + b·log(n/256)) for each head, to be calibrated on a model that is trained already.

Linear layers may multiply in bfloat16, which is about twice as fast on processors that can; weights, their changes,
attention and all else stay in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from strop._checks import require_known
from strop.edges.temperatures import LogLength
from strop.normalisers import Normaliser, by_name
from strop.studies.clrs.batches import QuestionBatch, TextCoder
from strop.studies.clrs.configs import ClrsTraining, DecoderShape, LoraShape
from strop.studies.clrs.placed import PLACED, PlacedTemperature, RowChoice
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
    """A model that takes (tokens, asked, positions), its coder, and what of it is learned, by name.

    Then which rows are sharpened, if not all, and the number of places from which positions are drawn, if they are.
    """

    model: nn.Module
    coder: TextCoder
    learned: dict[str, nn.Parameter]
    choice: RowChoice | None = None
    spread: int = 0

    def answer(self, batch: QuestionBatch) -> Tensor:
        """Logits [answers, vocabulary]."""
        if self.choice is not None:
            self.choice.look_at(batch)
        return cast(Tensor, self.model(batch.tokens, batch.asked, batch.positions))

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


def choose_rule(name: str, heads: int) -> tuple[RowChoice | None, Callable[[], Normaliser]]:
    """What makes the normaliser of a layer, and the rows it is for, if it is not for all."""
    if not name.startswith(PLACED):
        return None, partial(make_rule, name, heads)
    choice = RowChoice(name.removeprefix(PLACED))
    return choice, partial(PlacedTemperature, choice)


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
    coder = Vocabulary(*(find_algorithm(lesson.algorithm) for lesson in training.lessons))
    config = DecoderConfig(len(coder), **{name: value for name, value in asdict(shape).items() if name != "spread"})
    choice, make = choose_rule(rule, shape.heads)
    model = Decoder(config, make, stream("initial weights", training.seed))
    if training.budget.products == "bfloat16":
        multiply_in_bfloat16(model)
    return Learner(model, coder, dict(model.named_parameters()), choice, shape.spread)


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
    build_seeded(lambda: inject_adapter_in_model(config, inner), stream("initial weights", training.seed))
    if training.budget.products == "bfloat16":
        multiply_in_bfloat16(inner)
    choice, make = choose_rule(rule, int(inner.config.num_attention_heads))
    rules = {name: make() for name in find_sites(inner).choose(None)}
    learned = {name: value for name, value in inner.named_parameters() if "lora_" in name}
    for site, made in rules.items():
        learned |= {f"{site}.{RULE}.{name}": value for name, value in made.named_parameters()}
    for value in learned.values():
        value.requires_grad_(True)
    with sharpened(inner, rules):
        yield Learner(_AnswersOnly(inner), _Tokeniser(opened.tokenizer), learned, choice)


def multiply_in_bfloat16(model: nn.Module) -> None:
    """Let every linear layer multiply in bfloat16 and give float32; frozen weights are rounded once."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            if not module.weight.requires_grad:
                module.weight = nn.Parameter(module.weight.bfloat16(), requires_grad=False)  # an embedding may share it
            module.forward = partial(_multiply, module)  # type: ignore[method-assign]


def _multiply(layer: nn.Linear, x: Tensor) -> Tensor:
    bias = None if layer.bias is None else layer.bias.bfloat16()
    return F.linear(x.bfloat16(), layer.weight.bfloat16(), bias).float()


class _AnswersOnly(nn.Module):
    """A language model whose head is asked where something is asked, and nowhere else."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, tokens: Tensor, asked: Tensor, positions: Tensor | None) -> Tensor:
        """Logits [answers, vocabulary]."""
        hidden = self.inner.base_model(tokens, position_ids=positions, use_cache=False).last_hidden_state
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
        """As `Vocabulary` has it: 0 begins a value, the first digit after that, or after its point, is 1 …."""
        written = [self._write([token]) for token in tokens]
        places: list[int] = []
        for i, piece in enumerate(written):
            follows = i > 0 and piece.isdigit() and (written[i - 1].isdigit() or written[i - 1] == ".")
            places.append(places[-1] + 1 if follows else 0)
        return places
