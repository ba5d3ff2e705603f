"""How long a calibration takes to a validated loss, beside another version of strop: fresh processes, one thread.

    git worktree add /tmp/first abfb985                      # the first version that guards; or any other
    pip install --no-deps --target /tmp/first-site /tmp/first
    python benchmarks/calibration.py --against /tmp/first-site

Every variant calibrates the same form on the same task, sizes, steps, guard and prose, in turn. It prints the loss
before and after, the seconds until the point that was kept, and the most memory that was held.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

RECIPE = "--form constant --task recall --sizes 8,24 --steps 42 --every 14 --budget 0.009"

SAME = "--echoes 0 --passages 1 --windows 4 --no-guard-leads --harm 0.05 --guard maximum,passkey,variables,counting"
"""What the first version did by default."""

CHILD = """
import json, resource, sys
import strop, strop.cli
sys.argv[0] = "strop"
try:
    strop.cli.main()
except SystemExit as left:
    if left.code:
        raise
progress = strop.Edge.load(sys.argv[sys.argv.index("--out") + 1]).made["progress"]
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print("\\nFOUND", json.dumps({"progress": progress, "memory": memory}))
"""


def main() -> None:
    """Time every variant and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--against", type=Path, help="a folder in which another version of strop is installed")
    given = parser.parse_args()
    variants: dict[str, tuple[Path | None, str]] = {"this version": (None, SAME)}
    if given.against:
        variants["the other version"] = (given.against, "")
    print("| | loss before | validated loss | step kept | seconds to it | seconds in all | memory, MB |", flush=True)
    print("|---|---|---|---|---|---|---|", flush=True)
    for name, (site, more) in variants.items():
        began = time.monotonic()
        found = calibrate(given.model, site, f"{RECIPE} {more}")
        progress, whole = found["progress"], time.monotonic() - began
        seconds = progress["seconds"] * progress["best_step"] / progress["step"]
        losses = f"{progress['first_task']:.3f} | {progress['best_task']:.3f} | {progress['best_step']}"
        print(f"| {name} | {losses} | {seconds:.0f} | {whole:.0f} | {found['memory']:,.0f} |", flush=True)


def calibrate(model: str, site: Path | None, options: str) -> dict[str, Any]:
    """Calibrate in a process of its own; return what the edge says of it, and its memory."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | ({"PYTHONPATH": str(site.resolve())} if site else {})
    with tempfile.TemporaryDirectory() as folder:
        more = ["--out", f"{folder}/edge.safetensors", "--runs", folder, "--test-prompts", "0"]
        command = [sys.executable, "-c", CHILD, "calibrate", model, *options.split(), *more]
        told = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=folder)
    found = re.search("^FOUND (.*)$", told.stdout, re.MULTILINE)
    if found is None:
        raise SystemExit(told.stdout + told.stderr)
    known: dict[str, Any] = json.loads(found[1])
    return known


if __name__ == "__main__":
    main()
