"""Compile the Triton kernels for GPUs that need not be here, and write what the compilers say into docs/gpu.md.

    python tools/compile_gpu.py                     every target × dtype × head size × kernel; some half an hour
    python tools/compile_gpu.py sm_90 bfloat16 64   those alone, printed and not written; a kernel's name is taken too
    python tools/compile_gpu.py table               what has been compiled so far, written

The launches are those of a real call with a stand-in for the card's driver, so that what is compiled is what would run.
A triangle is a number to the kernels, not another kernel: one binary serves causal calls and others. What has been
compiled is kept in build/compile-gpu.json, so that a second run resumes; a changed kernel or tile is compiled again.
"""

import hashlib
import json
import re
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from strop.kernels.triton import launch
from strop.kernels.triton.call import KernelCall
from strop.normalisers import AdaptiveTemperature

ROOT = Path(__file__).parent.parent
CACHE = ROOT / "build" / "compile-gpu.json"
PAGE = ROOT / "docs" / "gpu.md"
TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
WIDTHS = (64, 128, 256)
PRODUCTS = {
    "attend_blocks": "3",
    "backward_of_rows": "4",
    "backward_of_keys": "4",
    "measure_pieces": "1",
    "attend_pieces": "2",
    "merge_pieces": "0",
    "mend_blocks": "0, or 5 where something is not finite",
}
"""Products of n_q × n_k × d that each kernel makes for adaptive temperature."""


class StandIn:
    """What triton asks of a card's driver before it compiles."""

    def __init__(self, target):
        self.target = target

    def get_current_target(self):
        """The card that is meant."""
        return self.target

    def get_current_device(self):
        """A name, under which what is compiled for this target is kept apart."""
        return str(self.target)

    def get_current_stream(self, device):
        """None is used."""
        return 0


def compile_all(target, dtype, width, known, kernels):
    """Compile every kernel of a forward pass, its decoding and its backward pass, and yield what is said of each."""
    driver.set_active(StandIn(TARGETS[target]))
    launch.ON_ROCM = TARGETS[target].backend == "hip"
    found = {}

    def compile_one(kernel, grid, tiles, *given, **constants):
        if kernel.__name__ not in kernels:
            return
        name = f"{target} {dtype} {width} {kernel.__name__}"
        found[name] = known.get(name, {})
        digest = hash_code(kernel, tiles)
        if found[name].get("source") != digest:
            warps, stages = tiles.warps, tiles.stages
            built = kernel.warmup(*given, **constants, grid=grid, num_warps=warps, num_stages=stages)
            found[name] = {"source": digest, "tiles": tuple(tiles), **describe(built, TARGETS[target])}
        say(name, found[name])

    launch._launch = compile_one
    launch_everything(DTYPES[dtype], width)
    return found


def hash_code(kernel, tiles):
    """A hash of what decides the code: the kernel and all that it calls, the tiles and the compiler."""
    return hashlib.sha256(f"{kernel.cache_key} {tuple(tiles)} {triton.__version__}".encode()).hexdigest()[:16]


def launch_everything(dtype, width):
    """Go through the launches of a call of 256 rows and keys."""
    query = torch.zeros(1, 2, 256, width, dtype=dtype)
    fusion = AdaptiveTemperature().fusion()
    call = KernelCall(query, query, query, scale=0.125, coefficients=fusion.coefficients, threshold=fusion.threshold)
    out, rows, extremes, counts = launch.make_results(call)
    launch._attend(call, out, rows, extremes, counts)
    launch._attend_in_pieces(call, out, rows, extremes, counts, 16)
    launch._mend(call, out, rows)
    grads = launch.make_gradients(call, False)
    launch._differentiate_rows(call, out, out, rows, None, grads)
    launch._differentiate_keys(call, out, rows, None, grads)


def describe(built, target):
    """Registers of a thread, bytes that spill to memory, and shared memory."""
    if target.backend == "hip":
        text = built.asm["amdgcn"]
        registers, spilled = (
            int(re.search(rf"\.{key}: +(\d+)", text)[1]) for key in ("vgpr_count", "private_segment_fixed_size")
        )
    else:
        said = ask_ptxas(built.asm["ptx"], target.arch)
        registers = int(re.search(r"Used (\d+) registers", said)[1])
        spilled = sum(int(n) for n in re.findall(r"(\d+) bytes spill (?:stores|loads)", said))
    return {"registers": registers, "spilled": spilled, "shared": built.metadata.shared}


def ask_ptxas(ptx, arch):
    """What NVIDIA's assembler says of the code it makes."""
    tools = triton.knobs.nvidia
    path = (tools.ptxas_blackwell if arch >= 100 else tools.ptxas).path
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        name = f"--gpu-name=sm_{arch}{'a' if arch >= 90 else ''}"
        ran = subprocess.run(
            [path, "-v", name, file.name, "-o", "/dev/null"], capture_output=True, text=True, check=True
        )
    return ran.stderr


def say(name, found):
    """One line of what a compiler says."""
    size = f"{found['shared'] / 1024:.0f} kB shared"
    print(f"{name}: {found['registers']} registers, {found['spilled']} bytes spilled, {size}", flush=True)


def form_table(found):
    """One row for each kernel, dtype and head size, one column for each target."""
    lines = [
        f"| kernel | dtype | d | products | {' | '.join(TARGETS)} |",
        f"|---|---|---|---|{'---|' * len(TARGETS)}",
    ]
    for kernel, dtype, width in product(PRODUCTS, DTYPES, WIDTHS):
        cells = [found.get(f"{target} {dtype} {width} {kernel}") for target in TARGETS]
        shown = (f"{c['registers']} / {c['spilled']} / {c['shared'] / 1024:.0f}" if c else "—" for c in cells)
        lines.append(f"| `{kernel}` | {dtype} | {width} | {PRODUCTS[kernel]} | {' | '.join(shown)} |")
    return "\n".join(lines)


def write_table(found):
    """Put the table between its marks in docs/gpu.md."""
    start, end = "<!-- compiled -->\n", "\n<!-- end -->"
    text = PAGE.read_text()
    before, after = text[: text.index(start) + len(start)], text[text.index(end) :]
    PAGE.write_text(before + form_table(found) + after)


def main(wanted):
    """Compile what is wanted, or all; fail where a bfloat16 kernel of d ≤ 128 spills."""
    CACHE.parent.mkdir(exist_ok=True)
    found, kernels = {}, [name for name in PRODUCTS if name in wanted] or list(PRODUCTS)
    rest = set(wanted) - set(kernels)
    for dtype, width, target in product(DTYPES, WIDTHS, TARGETS):
        if rest <= {dtype, str(width), target}:
            found |= compile_all(target, dtype, width, read_cache(), kernels)
            CACHE.write_text(json.dumps(read_cache() | found, indent=1))
    if not wanted or wanted == ["table"]:
        write_table(read_cache())
    spilt = [name for name, one in found.items() if one["spilled"] and is_promised(name)]
    print(f"{len(found)} kernels compile; {len(spilt)} of those promised not to spill do: {spilt}")
    return 1 if spilt else 0


def read_cache():
    """What has been compiled before."""
    return json.loads(CACHE.read_text()) if CACHE.exists() else {}


def is_promised(name):
    """Whether a kernel is one that must not spill."""
    _, dtype, width, _ = name.split()
    return dtype == "bfloat16" and int(width) <= 128


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
