"""`export`: an edge for another engine, from a model and an edge to a file or a folder."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from strop._checks import require, require_known
from strop.errors import BakeError

if TYPE_CHECKING:
    from torch import nn

    from strop.edges.edge import Edge
    from strop.exporting.gguf_file import GGUFFile
    from strop.exporting.plan import Plan
    from strop.pretrained.load import Opened, Pretrained

To = Literal["gguf", "transformers", "peft", "lora", "gguf-lora", "vllm"]
Dtype = Literal["float32", "bfloat16", "float16"]
PLANNERS: dict[To, tuple[str, str]] = {
    "gguf": ("gguf_model", "plan_gguf"),
    "transformers": ("transformers_folder", "plan_folder"),
    "peft": ("peft_folder", "plan_peft"),
    "lora": ("lora_folder", "plan_lora"),
    "gguf-lora": ("adapter_gguf", "plan_gguf_lora"),
    "vllm": ("vllm_folder", "plan_vllm"),
}
"""The module and the function that makes the plan; loaded when it is wanted."""

USES = {"gguf": ("gguf", "gguf-lora"), "max_rank": ("lora", "gguf-lora"), "dtype": ("transformers",)}
"""Arguments that do nothing elsewhere."""


def export(
    model: nn.Module | str | Pretrained,
    edge: Edge | str | Path,
    *,
    to: To,
    out: str | Path,
    gguf: str | Path | None = None,
    at_length: int | None = None,
    max_rank: int | None = None,
    dtype: Dtype | None = None,
    device: str = "cpu",
    tokenizer: Any = None,
    progress: bool | None = None,
) -> Plan:
    """Write an edge, or a model with it, for another engine.

    Args:
        model: The model that the edge was made for; or its name: smollm2, gemma3-270m, a folder, a GGUF file, a hub
            name.
        edge: The edge, or where it is.
        to: gguf (llama.cpp, ollama), transformers (plain weights, for any engine), peft ((IA)³ adapter), lora (exact
            LoRA adapter), gguf-lora (the same for llama.cpp's --lora), vllm (for edges that do not bake).
        out: The file or folder to write. It must not exist.
        gguf: The GGUF file to sharpen, made from this model. None: the one that the model came from.
        at_length: Keys at which to fix a β that depends on the length. None: such an edge is refused.
        max_rank: Largest rank of a LoRA adapter; heads that change least are left out. None: as it needs.
        dtype: Of plain weights (to transformers): float32, bfloat16 or float16. None: the model's.
        device: Where a model by name is opened: cpu, which takes float32; or auto, cuda, cuda:1, mps, spread, …, which
            take the dtype in which it was saved.
        tokenizer: The tokeniser to write beside a model that is given itself.
        progress: Show a bar while the model is opened. None: on a terminal and in a notebook.

    Returns:
        The plan that was carried out: what holds exactly, what to rounding, and what not. `print` shows it.

    Examples:
        >>> import strop
        >>> plan = strop.export("smollm2", "edge.safetensors", to="gguf", out="sharp.gguf")  # doctest: +SKIP
    """
    with planned(
        model, edge, to=to, out=out, gguf=gguf, at_length=at_length, max_rank=max_rank, dtype=dtype,
        device=device, tokenizer=tokenizer, progress=progress,
    ) as plan:  # fmt: skip
        plan.write()
    return plan


@contextmanager
def planned(
    model: nn.Module | str | Pretrained, edge: Edge | str | Path, *, to: To, out: str | Path,
    gguf: str | Path | None = None, at_length: int | None = None, max_rank: int | None = None,
    dtype: Dtype | None = None, device: str = "cpu", tokenizer: Any = None, progress: bool | None = None,
) -> Iterator[Plan]:  # fmt: skip
    """Yield the plan of an export, which can be written within the block; `export` says what the arguments mean."""
    require_known("to", to, PLANNERS)
    require_known("dtype", dtype or "float32", get_args(Dtype))
    for name, value in (("gguf", gguf), ("max_rank", max_rank), ("dtype", dtype)):
        known = USES[name]
        require(value is None or to in known, f"{name} must come with to={' or '.join(known)}", f"to={to}")
    from strop.exporting.job import Job
    from strop.exporting.new_files import refuse_existing
    from strop.pretrained.load import Pretrained
    from strop.pretrained.sources import check_name

    if isinstance(model, str):
        check_name(model)
        model = Pretrained(model, device=device)
    refuse_existing(Path(out))
    wanted = _read_edge(edge, to, at_length)
    with _open_gguf(model, gguf, Path(out)) if "gguf" in to else nullcontext() as file:
        job = Job(_open(model, tokenizer, progress), wanted, Path(out), file, max_rank, dtype)
        module, planner = PLANNERS[to]
        plan: Plan = getattr(importlib.import_module(f"strop.exporting.{module}"), planner)(job)
        fixed = () if at_length is None else (f"β at other lengths: it is fixed at that of {at_length} keys",)
        yield replace(plan, lost=(*fixed, *plan.lost))


def _read_edge(edge: Edge | str | Path, to: str, at_length: int | None) -> Edge:
    from strop.edges.edge import Edge
    from strop.exporting.at_length import fix_length

    found = edge if isinstance(edge, Edge) else Edge.from_pretrained(edge)
    if at_length is not None:
        return fix_length(found, at_length)
    rule = f"the edge's β must not depend on the input for {to}"
    reason = (
        "llama.cpp has one temperature for all heads, and in two families only" if "gguf" in to else "Weights do not"
    )
    by_entropy = any(one.uses == "entropy" for one in found.temperatures.values())
    way = "Use strop.sharpened" if by_entropy else "Fix it at one length (--at-length 8192), or keep it (--to vllm)"
    remedy = f"{reason}. {way}"
    require(found.bakeable or to == "vllm", rule, f"the form {found.form}", remedy, BakeError)
    return found


def _open(model: nn.Module | Pretrained, tokenizer: Any, progress: bool | None) -> Opened:
    from strop.pretrained.load import Opened, Pretrained, name_of

    return model.open(progress) if isinstance(model, Pretrained) else Opened(name_of(model), model, tokenizer)


@contextmanager
def _open_gguf(model: nn.Module | str | Pretrained, gguf: str | Path | None, out: Path) -> Iterator[GGUFFile]:
    """The GGUF file to sharpen; parts are joined beside `out` for the length of the block."""
    from strop.exporting.gguf_file import GGUFFile
    from strop.pretrained.convert import join_parts
    from strop.pretrained.load import Pretrained
    from strop.pretrained.sources import find_gguf

    name = model.name if isinstance(model, Pretrained) else model if isinstance(model, str) else ""
    parts = find_gguf(name) if gguf is None else [Path(gguf)]
    require(bool(parts), "a GGUF file must be given", "a model that came from none", "Add --gguf FILE")
    if len(parts) == 1:
        yield GGUFFile(parts[0])
        return
    out.absolute().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.absolute().parent, prefix=f".{out.name}.") as folder:
        yield GGUFFile(join_parts(parts, Path(folder) / "whole.gguf"))
