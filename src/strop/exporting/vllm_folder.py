"""A model folder with its weights as they are and the edge beside them, which the vLLM plugin puts on."""

from __future__ import annotations

from pathlib import Path

from strop._checks import require
from strop.edges.edge import FILE
from strop.errors import BakeError
from strop.exporting.job import Job
from strop.exporting.new_files import new_folder
from strop.exporting.plan import Plan
from strop.exporting.transformers_folder import save_model


def plan_vllm(job: Job) -> Plan:
    """Return the plan of a folder for vLLM."""
    edge = job.edge
    edge.check(job.model)
    by_entropy = any(rule.uses == "entropy" for rule in edge.temperatures.values())
    rule = "the edge's β must depend on the head and the length alone in vLLM"
    require(not by_entropy, rule, f"the form {edge.form}, which needs every row's entropy", error=BakeError)

    def put(path: Path) -> None:
        with new_folder(path) as folder:
            save_model(job.model, job.opened.tokenizer, folder)
            edge.save(folder / FILE)

    held = f"the form {edge.form}, by the plugin, where strop is installed; --model-impl transformers"
    return Plan(
        "vllm", job.out, (held,), (), ("nothing of this was run in vLLM: the plugin is tested on a stand-in",), put
    )
