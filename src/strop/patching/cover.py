"""`coverage`: which attention of a model strop reaches, by which way, and which it does not, before anything runs."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from torch import nn

from strop.patching.sites import survey

WIDTH = 80

_WAYS = {
    "transformers": "reached through transformers' attention interface",
    "torch": "reached through torch's own attention",
}
_OTHERS = "no softmax over queries and keys: nothing to sharpen"


@dataclass(frozen=True, repr=False)
class Coverage:
    """What strop reaches in a model.

    Attributes:
        model: The model's class.
        reached: Attention module → "transformers" or "torch", the way it is reached.
        unreached: Attention module → why it is not reached. Its softmax stays as it is.
        others: Module → class, of what has no softmax over queries and keys: linear attention, state spaces.
        kinds: Module → class, of all of these.

    Examples:
        >>> import strop
        >>> found = strop.coverage(model)
        >>> found.reached["model.layers.0.self_attn"], found.unreached
        ('transformers', {})
    """

    model: str
    reached: dict[str, str]
    unreached: dict[str, str]
    others: dict[str, str]
    kinds: dict[str, str]

    @property
    def complete(self) -> bool:
        """Whether there is attention, and all of it is reached."""
        return bool(self.reached) and not self.unreached

    def __repr__(self) -> str:
        total = len(self.reached) + len(self.unreached)
        lines = [f"<Coverage of {self.model}: {len(self.reached)} of {total} attention modules reached>"]
        for way, words in _WAYS.items():
            lines += _list(words, {name: self.kinds[name] for name, how in self.reached.items() if how == way})
        for why in dict.fromkeys(self.unreached.values()):
            missed = {name: self.kinds[name] for name, reason in self.unreached.items() if reason == why}
            lines += _list(f"NOT reached: {why}", missed)
        return "\n".join([*lines, *_list(_OTHERS, self.others)])


def coverage(model: nn.Module) -> Coverage:
    """Tell which attention of a model strop reaches, and which it does not and why, without running it.

    `sharpened` and `observed` refuse a model that is reached in part, unless told `partial=True`.

    Args:
        model: Any module.

    Examples:
        >>> import strop
        >>> strop.coverage(model)
        <Coverage of LlamaForCausalLM: 2 of 2 attention modules reached>
        reached through transformers' attention interface
            2 × model.layers.*.self_attn (LlamaAttention)
        >>> strop.coverage(model).complete
        True
    """
    found = survey(model)
    kinds = {name: type(model.get_submodule(name)).__name__ for name in (*found.all, *found.unreached, *found.others)}
    reached = {name: "torch" if name in found.through_torch else "transformers" for name in found.all}
    return Coverage(found.model, reached, found.unreached, {name: kinds[name] for name in found.others}, kinds)


def group(names: Mapping[str, str]) -> Iterator[str]:
    """Yield module → class in words, repeated layers as one pattern with their number."""
    alike = Counter((re.sub(r"(?<![^.])\d+(?![^.])", "*", name), kind) for name, kind in names.items())
    for (pattern, kind), count in alike.items():
        yield f"{count} × {pattern} ({kind})" if pattern else f"the model itself ({kind})"


def _list(title: str, names: Mapping[str, str]) -> list[str]:
    """Lines of a title and what stands under it; none where nothing does."""
    indent = " " * 4
    lines = [textwrap.fill(one, WIDTH, initial_indent=indent, subsequent_indent=indent * 2) for one in group(names)]
    return [title, *lines] if lines else []
