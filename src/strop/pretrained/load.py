"""Open a model and its tokeniser, for measuring: no gradients, and no network for a folder."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from strop._checks import require, require_known
from strop._extras import tell_missing
from strop._progress import show_progress
from strop.errors import SourceError, StropWarning
from strop.pretrained.devices import DTYPES, SPREAD, find_device
from strop.pretrained.hub import is_cached_only
from strop.pretrained.sources import Note, Source, check_name, find_model

if TYPE_CHECKING:
    from torch import nn


class Opened(NamedTuple):
    """A model, its tokeniser and what to call it."""

    name: str
    model: Any
    tokenizer: Any


@dataclass
class Pretrained:
    """A model by name, opened when it is first needed and then kept: wrong arguments are told before that.

    Attributes:
        name: A built-in name (smollm2, gemma3-270m, minilm), a folder, or a hub name.
        dtype: Of the weights: float32, bfloat16, float16. auto: float32 on the CPU, elsewhere as they were saved.
        trust_remote_code: Let a hub model run code of its own.
        head: Keep the language-model head, for generating.
        device: cpu, cuda, cuda:1, mps, … auto: a card where there is one. spread: over all cards, then the processor's
            memory, then the disk.

    Examples:
        >>> import strop
        >>> smollm2 = Pretrained("smollm2")
        >>> edge = strop.calibrate(smollm2, task="recall")  # doctest: +SKIP
        >>> gain = strop.evaluate(smollm2, edge=edge)  # doctest: +SKIP
    """

    name: str
    dtype: str = "auto"
    trust_remote_code: bool = False
    head: bool = True
    device: str = "auto"
    _opened: Opened | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_name(self.name)
        require_known("dtype", self.dtype, DTYPES)
        if self.device not in ("auto", "cpu"):  # which need no torch to be told
            find_device(self.device)

    def open(self, progress: bool | None = None) -> Opened:
        """Return the model in eval mode, its parameters frozen, and its tokeniser."""
        if self._opened is None:
            with show_progress(f"opening {self.name}", None, progress) as bar:
                self._opened = _open(self, lambda words: bar.update(text=words))
        return self._opened


def load_model(
    name: str, dtype: str = "auto", trust_remote_code: bool = False, head: bool = True, device: str = "cpu"
) -> tuple[Any, Any]:
    """Open a model in eval mode, its parameters frozen, and its tokeniser.

    Args:
        name: A built-in name (smollm2, gemma3-270m, minilm), a folder, or a hub name.
        dtype: Of the weights: float32, bfloat16, float16. auto: float32 on the CPU, elsewhere as they were saved.
        trust_remote_code: Let a hub model run code of its own.
        head: Keep the language-model head, for generating.
        device: cpu, cuda, cuda:1, mps, … auto: a card where there is one. spread: over all cards, then the processor's
            memory, then the disk.

    Returns:
        The model and the tokeniser, which begins every text with the first token that the model wants.

    Examples:
        >>> from strop.pretrained import load_model
        >>> model, tokenizer = load_model("smollm2")  # doctest: +SKIP
    """
    return Pretrained(name, dtype, trust_remote_code, head, device).open()[1:]


def open_model(
    model: nn.Module | str | Pretrained, tokenizer: Any, name: str | None, progress: bool | None, device: str = "auto",
    dtype: str = "auto", head: bool = True,
) -> Opened:  # fmt: skip
    """Return what a verb was given, opened: a model with its tokeniser, or a model by name."""
    if isinstance(model, str):
        model = Pretrained(model, dtype, head=head, device=device)
    else:
        rule, remedy = "device and dtype must be left to a model that is no name", "Move it yourself: model.to(…)"
        require(device == dtype == "auto", rule, f"{device} and {dtype}", remedy)
    if isinstance(model, Pretrained):
        require(tokenizer is None, "tokenizer must be left out for a model by name", type(tokenizer).__name__)
        opened = model.open(progress)
        return opened if name is None else opened._replace(name=name)
    require(tokenizer is not None, "tokenizer must come with a model", "none", "Or give the model by name")
    return Opened(name or name_of(model), model, tokenizer)


def name_of(model: nn.Module) -> str:
    """Return what a model calls itself: the last part of the folder or hub name it came from, or its class."""
    config: Any = getattr(model, "config", None)
    return Path(str(getattr(config, "name_or_path", None) or type(model).__name__)).name


def count_positions(model: nn.Module) -> int | None:
    """Return the largest number of positions the model was built for, or None where nothing says."""
    config: Any = model.config
    text = config.get_text_config()
    found = [getattr(text, name, None) for name in ("max_position_embeddings", "n_positions", "max_seq_len")]
    return next((int(limit) for limit in found if limit), None)


def go_beyond(lengths: Sequence[int], model: nn.Module) -> None:
    """Warn that lengths are beyond the model's positions; raise where the model has a table of them, which ends."""
    most, longest = count_positions(model), max(lengths)
    if most is None or longest <= most:
        return
    tables = [name for name, part in model.named_modules() if _is_position_table(name, part, most)]
    rule = f"lengths must be at most the model's {most} positions, whatever --beyond says"
    require(not tables, rule, longest, f"It looks them up in a table, {', '.join(tables)}, which ends there")
    words = (
        f"{longest:,} tokens are beyond the {most:,} positions the model was built for: what it does there is a guess."
    )
    warnings.warn(words, StropWarning, stacklevel=4)


def _is_position_table(name: str, part: nn.Module, most: int) -> bool:
    rows = getattr(part, "num_embeddings", None)
    return rows is not None and most <= rows <= most + 2 and ("pos" in name or name.endswith("wpe"))


def _open(wanted: Pretrained, note: Note) -> Opened:
    source = find_model(wanted.name, note)
    from_disk = source.local or is_cached_only(source.place)
    import torch  # seconds of imports: a wrong name is told before them
    import transformers

    from strop.pretrained.convert import silence_transformers

    kind = transformers.AutoModelForCausalLM if wanted.head else transformers.AutoModel
    device = find_device(wanted.device)
    dtype = "float32" if wanted.dtype == "auto" and device.type == "cpu" else wanted.dtype
    place: Any = {"local_files_only": from_disk, "trust_remote_code": wanted.trust_remote_code}
    spread = {"device_map": "auto"} if wanted.device == SPREAD else {}
    with silence_transformers():
        with _explain("weights", "config.json and *.safetensors", source):
            model: Any = kind.from_pretrained(source.place, dtype=getattr(torch, dtype, dtype), **place, **spread)
        with _explain("tokeniser", "tokenizer.json and tokenizer_config.json", source):
            tokeniser = transformers.AutoTokenizer.from_pretrained(source.place, **place)
    if wanted.name != source.place:  # a packaged model is called by its name, not by its folder in the cache
        model.config.name_or_path = source.name
    if source.bos:
        _begin_with_bos(tokeniser)
    model = model if spread else model.to(device)
    return Opened(source.name, model.eval().requires_grad_(False), tokeniser)


@contextmanager
def _explain(part: str, files: str, source: Source) -> Iterator[None]:
    """Turn whatever another library raises into an error that says which files it was about, and all it said."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise tell_missing(error.name or "") from error
    except Exception as error:
        said = str(error).strip() or type(error).__name__
        raise SourceError(
            f"the {part} of {source.name} must open in transformers, got this from {files} in {source.place}:\n{said}"
        ) from error


def _begin_with_bos(tokeniser: Any) -> None:
    """Let a tokeniser that lost it on its way through GGUF begin every text with its first token."""
    from tokenizers.processors import TemplateProcessing

    if tokeniser("a")["input_ids"][:1] != [tokeniser.bos_token_id]:
        bos = str(tokeniser.bos_token)
        tokeniser.backend_tokenizer.post_processor = TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, tokeniser.bos_token_id)]
        )
