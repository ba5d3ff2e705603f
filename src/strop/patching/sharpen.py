"""`sharpened`: another normaliser in a trained model, for the length of a block.

    with strop.sharpened(model, strop.normalisers.AdaptiveTemperature(), layers=[3, 4], heads=[0, 7]):
        model.generate(...)

It works on any transformers model that honours the attention interface, on nn.MultiheadAttention and
nn.TransformerEncoder, on timm's attention and on modules that call F.scaled_dot_product_attention. On exit,
exception or not, the model is as before.

A warning that belongs here: the published polynomial on every head harms pretrained language models.
SmolLM2-135M's exact answers on 16-pair key–value recall fell from 0.62 to 0.08 in a trial of 24 prompts, as
arXiv 2410.01104 itself says of CLRS-Text at inference time. For such models choose heads and strength from
data (calibration); a model must never be made worse silently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, runtime_checkable

from torch import nn

from strop._checks import require
from strop.errors import ArgumentTypeError
from strop.normalisers import Normaliser, by_name
from strop.patching.block import Change, apply
from strop.patching.frames import Choice
from strop.patching.placement import device_of
from strop.patching.sites import Sites, find_sites


@runtime_checkable
class Applicable(Protocol):
    """What knows by itself how to be put into a model, as a calibrated edge does."""

    def put_on(self, model: nn.Module, partial: bool = False) -> AbstractContextManager[object]:
        """Return the block in which the model has it."""


Normalisers = Normaliser | str | Mapping[str, Normaliser]


@contextmanager
def sharpened(
    model: nn.Module,
    normaliser: Normalisers | Applicable,
    layers: Sequence[int | str] | None = None,
    heads: Sequence[int] | None = None,
    partial: bool = False,
) -> Iterator[nn.Module]:
    """Use another normaliser in the attention of a model inside the block; on exit the model is as before.

    Blocks nest: the inner one wins where both name a head. Attention weights are not returned while patched
    (`output_attentions` gives none, as with sdpa). On pretrained language models the paper's polynomial on every head
    does harm: calibrate instead.

    Args:
        model: A transformers model, or any module whose attention is torch's own function.
        normaliser: A normaliser, its short name, a calibrated edge, or a mapping from module names (or patterns) to
            normalisers.
        layers: Numbers, names or patterns of attention modules. None: all.
        heads: Numbers of query heads. None: all.
        partial: Accept a model of which not all that was chosen is reached, with a warning. Otherwise such a model is
            refused, by name of the modules; `strop.coverage` tells beforehand.

    Examples:
        >>> import strop, torch
        >>> ids = torch.arange(3, 23)[None]
        >>> with torch.no_grad(), strop.sharpened(model, strop.normalisers.Softmax(2.0), layers=[0], heads=[1]):
        ...     sharper = model(ids).logits
        >>> bool((sharper - model(ids).logits).abs().max() > 1e-6)
        True
    """
    if isinstance(normaliser, Applicable):
        require(layers is None and heads is None, "layers and heads must be left out with an edge", (layers, heads),
                "An edge names its heads itself")  # fmt: skip
        with normaliser.put_on(model, partial):
            yield model
        return
    found = find_sites(model)
    patterns = list(normaliser) if layers is None and isinstance(normaliser, Mapping) else layers
    choices = _choose(found, normaliser, layers, heads)
    chosen = {*choices, *found.choose_unreached(patterns)}
    with apply(model, found, Change(choices, None, chosen, partial)):
        yield model


def _choose(
    found: Sites, normaliser: Normalisers, layers: Sequence[int | str] | None, heads: Sequence[int] | None
) -> dict[str, Choice]:
    chosen = found.choose(layers)
    picked = None if heads is None else tuple(heads)
    if isinstance(normaliser, Mapping):
        named = {name: rule for pattern, rule in normaliser.items() for name in found.choose([pattern])}
        return {name: Choice(_build(named[name], module), picked) for name, module in chosen.items() if name in named}
    return {name: Choice(_build(normaliser, module), picked) for name, module in chosen.items()}


def _build(normaliser: Normaliser | str, module: nn.Module) -> Normaliser:
    made = by_name(normaliser).to(device_of(module)) if isinstance(normaliser, str) else normaliser
    require(
        isinstance(made, Normaliser),
        "normaliser must be a strop normaliser, its name, or a mapping from module names to normalisers",
        type(made).__name__,
        error=ArgumentTypeError,
    )
    return made
