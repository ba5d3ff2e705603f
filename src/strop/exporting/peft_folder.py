"""An (IA)³ adapter (arXiv 2205.05638): a vector scales what the query projection gives, another what the output
projection takes. That is an edge exactly, beside the weights instead of in them, so a quantised base keeps its own.
"""

from __future__ import annotations

import torch
from torch import Tensor

from strop._checks import require
from strop.errors import BakeError
from strop.exporting.adapter_folder import scale_norms, write_adapter
from strop.exporting.job import Job
from strop.exporting.plan import Plan
from strop.patching.layout import Projection


def plan_peft(job: Job) -> Plan:
    """Return the plan of an (IA)³ adapter."""
    edited = any(place.low_rank is not None for place in job.places.values())
    rule = "the edge must scale queries and outputs alone for (IA)³"
    require(not edited, rule, "a low-rank edit of the query", "Use --to lora", BakeError)
    outputs, inputs = _vectors(job)
    norms = scale_norms(job)
    config = {"peft_type": "IA3", "target_modules": sorted(outputs | inputs), "feedforward_modules": sorted(inputs)}
    tensors = {f"{name}.ia3_l": each[:, None] for name, each in outputs.items()}
    tensors |= {f"{name}.ia3_l": each[None] for name, each in inputs.items()}
    exact = [f"what {len(outputs)} query projections give", f"what {len(inputs)} output projections take"]
    exact += [f"{len(norms)} weights of query norms, kept whole"] if norms else []
    return Plan("peft", job.out, tuple(exact), (), (), lambda path: write_adapter(job, path, config, tensors, norms))


def _vectors(job: Job) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Factors by layer: of what it gives, and of what it takes."""
    names, places = job.layers, job.places
    outputs = {names[p.query.layer]: _widen(p.query, p.rows) for p in places.values() if p.rows is not None}
    inputs = {names[p.output]: p.columns for p in places.values() if p.columns is not None}
    if not outputs and not inputs:  # PEFT wants a layer to adapt even where norms alone are changed
        first = next(iter(places.values())).output
        inputs = {names[first]: torch.ones(first.weight.shape[-1])}
    return outputs, inputs


def _widen(query: Projection, rows: Tensor) -> Tensor:
    """Factors of everything that the query's layer gives: ones for keys and values in a fused one."""
    whole = torch.ones(query.layer.weight.shape[1 if query.transposed else 0])
    whole[query.rows] = rows.float()
    return whole
