"""`sharpened`: another normaliser in a trained model, for the length of a block.

    with strop.sharpened(model, strop.AdaptiveTemperature(), layers=[3, 4], heads=[0, 7]):
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
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Protocol, runtime_checkable

from torch import nn

from strop._checks import require
from strop.hf.frames import Choice, Frame, pushed
from strop.hf.interface import switched
from strop.hf.modules import rerouted
from strop.hf.sites import Sites, owners, sites
from strop.normalisers import Normaliser, by_name


@runtime_checkable
class Applicable(Protocol):
    """What knows by itself how to be put into a model, as a calibrated edge does."""

    def applied(self, model: nn.Module) -> AbstractContextManager[object]:
        """Return the block in which the model has it."""


Normalisers = Normaliser | str | Mapping[str, Normaliser]


@contextmanager
def sharpened(
    model: nn.Module,
    normaliser: Normalisers | Applicable,
    layers: Sequence[int | str] | None = None,
    heads: Sequence[int] | None = None,
) -> Iterator[nn.Module]:
    """Use `normaliser` in the attention of `model` inside the block, on all layers and heads or on those named.

    `normaliser` is a normaliser, its short name, a calibrated edge, or a mapping from module names (or
    patterns) to normalisers. `layers` holds numbers, names or patterns of attention modules; `heads` numbers
    of query heads. Blocks nest: the inner one wins where both name a head. Attention weights are not returned
    while patched (`output_attentions` gives none, as with sdpa).

    On pretrained language models the paper's polynomial on every head does harm (see the module's docstring):
    calibrate instead.
    """
    if isinstance(normaliser, Applicable):
        require(layers is None and heads is None, "layers and heads must be left out with an edge", (layers, heads),
                "An edge names its heads itself")  # fmt: skip
        with normaliser.applied(model):
            yield model
        return
    found = sites(model)
    frame = Frame({m: n for n, m in found.all.items()}, _choices(found, normaliser, layers, heads))
    with patched(model, found, frame):
        yield model


@contextmanager
def patched(model: nn.Module, found: Sites, frame: Frame) -> Iterator[None]:
    """Put a frame on a model, and raise if the model then ran without ever calling our attention."""
    with ExitStack() as stack:
        stack.enter_context(pushed(frame))
        stack.enter_context(switched(owners(model) if found.by_interface else ()))
        stack.enter_context(rerouted(model, found.by_torch.values()))
        hook = model.register_forward_pre_hook(lambda *_: _count(frame))
        stack.callback(hook.remove)
        yield
    require(
        frame.calls > 0 or frame.forwards == 0,
        f"{found.model} must call attention through transformers' interface or torch's function",
        f"{frame.forwards} forward passes without one call",
        "Its outputs in this block are those of the unchanged model",
        RuntimeError,
    )


def _count(frame: Frame) -> None:
    frame.forwards += 1


def _choices(
    found: Sites, normaliser: Normalisers, layers: Sequence[int | str] | None, heads: Sequence[int] | None
) -> dict[nn.Module, Choice]:
    chosen = found.chosen(layers)
    picked = None if heads is None else tuple(heads)
    if isinstance(normaliser, Mapping):
        named = {name: rule for pattern, rule in normaliser.items() for name in found.chosen([pattern])}
        return {module: Choice(_rule(named[name]), picked) for name, module in chosen.items() if name in named}
    return {module: Choice(_rule(normaliser), picked) for module in chosen.values()}


def _rule(normaliser: Normaliser | str) -> Normaliser:
    made = by_name(normaliser) if isinstance(normaliser, str) else normaliser
    require(
        isinstance(made, Normaliser),
        "normaliser must be a strop normaliser, its name, or a mapping from module names to normalisers",
        type(made).__name__,
        error=TypeError,
    )
    return made
