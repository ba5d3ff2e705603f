"""Break the Triton kernels one line at a time, and see that the interpreter's tests notice each.

python tools/mutate_triton.py            every mutation; exit code 1 where one survives

Outcomes are kept in build/mutate-triton.json, so that a second run resumes; changed kernels or tests are tried again.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
HERE = Path("strop/kernels/triton")
CACHE = ROOT / "build" / "mutate-triton.json"
TESTS = ROOT / "tests" / "kernels" / "interpreted"
MUTATIONS = {
    "a lost rescale of l": ("forward.py", "mass = fade * mass + tl.sum(weight, 1)", "mass = mass + tl.sum(weight, 1)"),
    "w not moved with the maximum": ("forward.py", "fade * (lean + mass * drop)", "fade * lean"),
    "a lost rescale of the output": ("forward.py", "mixed * fade[:, None], higher", "mixed, higher"),
    "β′ left out": ("backward.py", "lean -= d_beta * bend_slope(lse - mean, curve)", "lean -= 0.0 * d_beta"),
    "an off-by-one at the diagonal": (
        "logits.py",
        "tl.maximum(row + diagonal + 1, 0)",
        "tl.maximum(row + diagonal, 0)",
    ),
    "the triangle cut a tile too late": (
        "forward.py",
        "tl.maximum(block * BM + diagonal + 1, 0)",
        "tl.maximum(block * BM + BM + diagonal + 1, 0)",
    ),
    "a masked key that leaks": ("logits.py", "seen = seen & (tl.load(keep", "seen = seen | (tl.load(keep"),
    "keys past the end that leak": (
        "logits.py",
        "seen = within if EDGE else",
        "seen = (key >= 0) & (limit >= 0) if EDGE else",
    ),
    "the sink left out": ("forward.py", "mass * fade + tl.exp(sink - top)", "mass * fade"),
    "the sink's part in dβ left out": ("backward.py", "d_beta -= mean * d_sink", "d_beta -= 0.0 * d_sink"),
    "a rounded output left in dβ": ("backward.py", "d_beta -= excess * middle", "d_beta -= 0.0 * excess"),
    "a rounded output left in D": ("backward.py", "delta += excess", "delta += 0.0 * excess"),
    "the cap's slope left out": ("backward.py", "(change * slope).to(query.dtype)", "change.to(query.dtype)"),
    "D left out of dk": ("backward.py", "weight * (flow - delta[None, :])", "weight * flow"),
    "a piece not rescaled in the merge": (
        "split.py",
        "tl.sum(fade * (leans + masses * drop), 0)",
        "tl.sum(fade * leans, 0)",
    ),
    "a piece of the output not rescaled": ("split.py", "tl.sum(fade[:, None] * parts, 0)", "tl.sum(parts, 0)"),
    "a hidden NaN that leaks": (
        "mend.py",
        'plain = tl.where(tl.abs(value) < float("inf"), value, 0.0).to(value.dtype)',
        "plain = value",
    ),
    "a bias whose gradient goes through the cap": (
        "backward.py",
        "tl.atomic_add(to, change,",
        "tl.atomic_add(to, change * slope,",
    ),
    "the wrong key head": ("forward.py", "keys = (k, b, h // GROUP, n_k)", "keys = (k, b, 0, n_k)"),
    "statistics without their gradient": (
        "backward.py",
        "lift = lean + tl.load(d_rows + LSE * count",
        "lift = lean - tl.load(d_rows + LSE * count",
    ),
}


def survives(file, old, new):
    """Whether the tests pass with one line changed; the quick ones come first."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src" / "strop", Path(folder) / "strop")
        path = Path(folder) / HERE / file
        text = path.read_text()
        assert old in text, f"{old!r} is not in {file}"
        path.write_text(text.replace(old, new))
        environment = os.environ | {"PYTHONPATH": folder, "TRITON_INTERPRET": "1"}
        command = [sys.executable, "-m", "pytest", "-x", "-n", "0", TESTS / "test_triton.py", TESTS / "test_drawn.py"]
        ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert ran.returncode in (0, 1), ran.stdout[-3000:] + ran.stderr[-3000:]
        return ran.returncode == 0


def survives_as_before(name, mutation):
    """What was found before of the same kernels and tests, else what is found now."""
    sources = sorted([*(ROOT / "src" / HERE).glob("*.py"), *TESTS.glob("*.py")])
    told = "".join([*(path.read_text() for path in sources), *mutation])
    digest = hashlib.sha256(told.encode()).hexdigest()[:16]
    known = json.loads(CACHE.read_text()) if CACHE.exists() else {}
    if digest not in known:
        known[digest] = survives(*mutation)
        CACHE.parent.mkdir(exist_ok=True)
        CACHE.write_text(json.dumps(known, indent=1))
    print(f"{'survives' if known[digest] else 'caught'}: {name}", flush=True)
    return known[digest]


def main():
    """Try every mutation, after none at all."""
    assert survives_as_before("nothing changed", ("forward.py", "", "")), (
        "the tests must pass before anything is broken"
    )
    alive = [name for name, mutation in MUTATIONS.items() if survives_as_before(name, mutation)]
    print(f"{len(MUTATIONS) - len(alive)} of {len(MUTATIONS)} mutations are caught; these survive: {alive}")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
