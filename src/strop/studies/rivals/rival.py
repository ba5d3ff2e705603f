"""A rival: something that can be done to a frozen model, and the list of them.

Temperatures that follow n leave inputs within the trained length alone, as published. All lengths of this board are
within it, so they would do nothing. Here they count from 256 keys, the length that calibration too is told to trust.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strop._checks import require_known
from strop.normalisers import AdaptiveTemperature, InfoScale, Llama4Temperature, LogN, YaRNTemperature
from strop.patching.sharpen import sharpened
from strop.studies.rivals.adapters import make_adapter
from strop.studies.rivals.board import RivalBoard
from strop.studies.rivals.dysco import make_dysco
from strop.studies.rivals.edges import make_edge
from strop.studies.rivals.made import Made
from strop.studies.rivals.shots import add_shots

if TYPE_CHECKING:
    from strop.normalisers import Normaliser
    from strop.pretrained.load import Opened
    from strop.tasks.passages import Passage

TRUSTED = 256
UNTOUCHED = "untouched"
RULER = "RULER"

Maker = Callable[["Opened", RivalBoard, Path, bool], Made | None]


@dataclass(frozen=True)
class Rival:
    """One line of the board.

    `make` returns what was learned; it learns where nothing was, if it may. `passages` is what is done to the prompts
    of a task. `skips` names the kinds of cells that say nothing of it.
    """

    name: str
    about: str
    make: Maker
    passages: Callable[[str, list[Passage]], list[Passage]] = lambda task, given: given
    prompts_only: bool = False
    skips: tuple[str, ...] = ()


def _temperature(name: str, about: str, build: Callable[[Opened], Normaliser]) -> Rival:
    def make(opened: Opened, board: RivalBoard, folder: Path, learn: bool) -> Made:
        normaliser = build(opened)

        def put_on() -> AbstractContextManager[Any]:
            return sharpened(opened.model, normaliser)

        return Made(f"{name}: {normaliser!r}", put_on, bakes=False)

    return Rival(name, about, make)


def _infoscale(opened: Opened) -> Normaliser:
    config: Any = opened.model.config
    text = config.get_text_config()
    return InfoScale(TRUSTED, getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads)


def _nothing(opened: Opened, board: RivalBoard, folder: Path, learn: bool) -> Made:
    return Made(UNTOUCHED, nullcontext)


def _edge(name: str, about: str, **settings: Any) -> Rival:
    return Rival(name, about, lambda *given: make_edge(name, settings, *given))


def _adapter(name: str, about: str, **settings: Any) -> Rival:
    return Rival(name, about, lambda *given: make_adapter(name, settings, *given))


Q, QKVO = ("q_proj",), ("q_proj", "k_proj", "v_proj", "o_proj")

RIVALS: Mapping[str, Rival] = {
    rival.name: rival
    for rival in (
        Rival(UNTOUCHED, "the model as it is", _nothing),
        _temperature(
            "yarn", "YaRN's temperature (arXiv 2309.00071), from 256 keys", lambda _: YaRNTemperature(TRUSTED)
        ),
        _temperature(
            "llama4", "Llama 4's temperature, a step for every 256 keys", lambda _: Llama4Temperature(TRUSTED)
        ),
        _temperature("log-n", "β = log n / log 256", lambda _: LogN(TRUSTED)),
        _temperature("infoscale", "InfoScale's temperature (arXiv 2501.08570), from 256 keys", _infoscale),
        _temperature(
            "adaptive", "β from the entropy, as published (arXiv 2410.01104)", lambda _: AdaptiveTemperature()
        ),
        _temperature(
            "adaptive-held", "the same, held beyond its fit", lambda _: AdaptiveTemperature(beyond_fit="hold")
        ),
        Rival("two-shot", "two solved examples before the passage", _nothing, add_shots, True, ("prose", RULER)),
        Rival(
            "dysco",
            "retrieval heads pick tokens to be raised, step by step (arXiv 2602.22175)",
            make_dysco,
            skips=("prose", "cost", RULER),
        ),
        _edge("seal", "output scales (SEAL, arXiv 2501.15225), by our calibration", form="none"),
        _edge("edge-constant", "ours: β and an output scale a head", form="constant"),
        _edge("edge-pairs", "ours: β a rotary pair, and output scales", form="pairs"),
        _edge("edge-query", "ours: a query edit of rank 8, and output scales", form="query", rank=8),
        _adapter("ia3", "(IA)³ on keys, values and the feed-forward (arXiv 2205.05638)", kind="ia3"),
        _adapter("lora-1-q", "LoRA of rank 1 on queries", kind="lora", rank=1, targets=Q),
        _adapter("lora-8-q", "LoRA of rank 8 on queries", kind="lora", rank=8, targets=Q),
        _adapter("lora-8-q-held", "the same, with our budget and guard", kind="lora", rank=8, targets=Q, held=True),
        _adapter("lora-1-qkvo", "LoRA of rank 1 on q, k, v, o", kind="lora", rank=1, targets=QKVO),
        _adapter("lora-8-qkvo", "LoRA of rank 8 on q, k, v, o", kind="lora", rank=8, targets=QKVO),
    )
}


def find_rival(name: str) -> Rival:
    """Return a rival by name; a path to an edge's file is a rival too."""
    if Path(name).suffix == ".safetensors":
        from strop.studies.rivals.edges import open_edge

        return Rival(Path(name).stem, f"an edge: {Path(name).name}", lambda *given: open_edge(name, *given))
    require_known("rivals", name, tuple(RIVALS))
    return RIVALS[name]
