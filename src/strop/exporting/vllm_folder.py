"""A model folder with its weights as they are and the edge beside them, which the vLLM plugin puts on."""

from __future__ import annotations

from pathlib import Path

from strop._checks import require
from strop.edges.edge import FILE, Edge
from strop.edges.forms import QUERY_EDITS
from strop.errors import UnsupportedError
from strop.exporting.job import Job
from strop.exporting.new_files import new_folder
from strop.exporting.plan import Plan
from strop.exporting.transformers_folder import save_model


def check_form(edge: Edge) -> None:
    """Raise for a form that the plugin cannot put on: all that it has is the head and the number of keys."""
    uses = {rule.uses for rule in edge.temperatures.values()}
    known = uses in ({"constant"}, {"n_keys"}) and not {*edge.parts} & {*QUERY_EDITS}
    remedy = "Use --to transformers, which folds it" if edge.bakeable else "Use strop.sharpened"
    rule = "the edge's form must be constant, layer, log-n, power-n or hold in vLLM"
    require(known, rule, edge.form, remedy, UnsupportedError)


def plan_vllm(job: Job) -> Plan:
    """Return the plan of a folder for vLLM."""
    edge = job.edge
    edge.check(job.model)
    check_form(edge)

    def put(path: Path) -> None:
        with new_folder(path) as folder:
            save_model(job.model, job.opened.tokenizer, folder)
            edge.save(folder / FILE)

    held = f"the form {edge.form}, by the plugin, where strop is installed; --model-impl transformers"
    return Plan(
        "vllm", job.out, (held,), (), ("nothing of this was run in vLLM: the plugin is tested on a stand-in",), put
    )
