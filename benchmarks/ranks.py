"""Attention over processes against attention in one: the same numbers, bytes sent, and time.

    python benchmarks/ranks.py                    # everything: some five minutes
    python benchmarks/ranks.py --only time        # one part: compare or time
    python benchmarks/ranks.py --table            # write the kept results into docs/how-to/ranks.md again

Every process has one core and one thread. Teams of one and two ranks, and one process without any, are asked in turn,
so that what disturbs one disturbs all; a time is that of the slower rank in the fastest
of ten steps, by the clock and in seconds of its processor, which other programs disturb less.
Results go to benchmarks/results/ranks.json.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from native import machine
from pages import put_table
from torch import Tensor

import strop
from strop.records import write_text

RESULTS = Path(__file__).parent / "results" / "ranks.json"
PAGE = Path(__file__).parent.parent / "docs" / "how-to" / "ranks.md"
CASES = (("softmax", False), ("softmax", True), ("adaptive", True))
"""Normaliser, and whether the mask is causal."""

WIDTH, LONG, SHORT, ROUNDS = 64, 16_384, 2048, 10
HEADS = {SHORT: (2, 1), LONG: (1, 1)}
"""Query heads and key heads, by length."""


class Team:
    """Processes that answer together: ranks of one group, or with no ranks one process that has no group."""

    def __init__(self, ranks: int, folder: str) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.pipes = []
        for rank in range(max(1, ranks)):
            ours, theirs = spawn.Pipe()
            store = f"{folder}{ranks}"
            spawn.Process(target=serve, args=(rank, ranks, store, theirs), daemon=True).start()
            self.pipes.append(ours)

    def ask(self, *question: Any) -> list[Any]:
        """Return every process's answer."""
        for pipe in self.pipes:
            pipe.send(question)
        return [pipe.recv() for pipe in self.pipes]


def serve(rank: int, ranks: int, store: str, pipe: Any) -> None:
    """Answer questions on a core of our own."""
    os.sched_setaffinity(0, {rank % (os.cpu_count() or 1)})
    torch.set_num_threads(1)
    if ranks:
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    with suppress(EOFError):  # nobody is left to ask
        while True:
            name, *arguments = pipe.recv()
            pipe.send(globals()[name](ranks, *arguments))


@cache
def draw(n: int) -> list[Tensor]:
    """Query, key, value and the output's cotangent, of the whole sequence."""
    made, (heads, groups) = torch.Generator().manual_seed(n), HEADS[n]
    return [torch.randn(1, count, n, WIDTH, generator=made) for count in (heads, groups, groups, heads)]


@contextmanager
def shares(ranks: int, n: int) -> Iterator[Any]:
    """What this process has of the sequence."""
    block = strop.sharded(strop.Shards.zigzag(n, ranks)) if ranks else nullcontext()
    with block as here:
        yield here


def attend(tensors: list[Tensor], rule: str, causal: bool, backward: bool, stats: bool = False) -> list[Tensor]:
    """Output, and gradients and statistics where they are asked for."""
    leaves, flow = [tensor.detach().requires_grad_(backward) for tensor in tensors[:3]], tensors[3]
    made: Any = strop.attention(*leaves, is_causal=causal, normaliser=rule, enable_gqa=True, return_stats=stats)
    out, found = made if stats else (made, ())
    grads = torch.autograd.grad(out, leaves, flow) if backward else ()
    return [out.detach(), *grads, *(field.detach() for field in found)]


def compare(ranks: int, rule: str, causal: bool) -> dict[str, Any]:
    """How far our rows are from those of one process, relative to the largest number, and the bytes that we sent."""
    whole = draw(SHORT)
    truth = attend(whole, rule, causal, True, stats=True)
    names = ("output", "dq", "dk", "dv", *strop.RowStats._fields)
    with shares(ranks, SHORT) as here:
        mine = [here.take(tensor) for tensor in whole]
        got = attend(mine, rule, causal, True, stats=True)
        sent = {}
        for backward in (False, True):
            before = here.traffic.sent
            attend(mine, rule, causal, backward)
            sent["forward and backward" if backward else "forward"] = here.traffic.sent - before
        errors = {}
        for name, one, all_ in zip(names, got, truth, strict=True):
            ours = here.take(all_, all_.ndim - 1 if all_.ndim == 3 else 2)
            errors[name] = float((one - ours).abs().max() / all_.abs().max())
        needed = count_needed(here, causal)
    return {"errors": errors, "sent": sent, "needed": needed}


def count_needed(here: Any, causal: bool) -> dict[str, int]:
    """The least bytes that must reach us: the keys and values that our rows see, and back the parts of their gradients.

    Each rank sends, on average, as much as reaches it.
    """
    last = int(here.positions.max())
    others = [here.shards.positions(rank) for rank in range(here.shards.ranks) if rank != here.rank]
    seen = sum(int((positions <= last).sum()) if causal else len(positions) for positions in others)
    once = seen * HEADS[SHORT][1] * 2 * WIDTH * 4
    return {"forward": once, "forward and backward": 3 * once}


def take_time(ranks: int, rule: str, causal: bool, backward: bool) -> tuple[float, float]:
    """Seconds of one step on the long sequence, by the clock and of this processor."""
    with shares(ranks, LONG) as here:
        tensors = [here.take(tensor) for tensor in draw(LONG)] if here else draw(LONG)
        if here:
            dist.barrier()
        began, busy = time.perf_counter(), time.process_time()
        attend(tensors, rule, causal, backward)
        busy = time.process_time() - busy
        if here:
            dist.barrier()
        return time.perf_counter() - began, busy


def compare_all(folder: str) -> list[dict[str, Any]]:
    """Two and four ranks beside one process."""
    rows = []
    for ranks in (2, 4):
        team = Team(ranks, folder)
        for rule, causal in CASES:
            found = team.ask("compare", rule, causal)
            errors = {name: max(one["errors"][name] for one in found) for name in found[0]["errors"]}
            for way in ("forward", "forward and backward"):
                sent, needed = (sum(one[what][way] for one in found) / ranks for what in ("sent", "needed"))
                rows.append(
                    {"ranks": ranks, "rule": rule, "causal": causal, "way": way, "sent": sent, "needed": needed}
                    | {"errors": errors}
                )
                print(*rows[-1].items(), flush=True)
    return rows


def time_all(folder: str) -> list[dict[str, Any]]:
    """Two ranks on two cores, one rank on one core and one process without ranks, in turn."""
    teams, rows = {"two": Team(2, folder), "one": Team(1, folder), "none": Team(0, folder)}, []
    for rule, causal in CASES[1:]:
        for backward in (False, True):
            found: dict[str, list[list[tuple[float, float]]]] = {name: [] for name in teams}
            for _ in range(ROUNDS):
                for name, team in teams.items():
                    found[name].append(team.ask("take_time", rule, causal, backward))
            way = "forward and backward" if backward else "forward"
            rows.append({"rule": rule, "causal": causal, "way": way})
            for i, clock in enumerate(("clock", "processor")):  # of the slower rank, in the fastest step
                rows[-1][clock] = {name: min(max(o[i] for o in one) for one in found[name]) for name in teams}
            print(*rows[-1].items(), flush=True)
    return rows


def tabulate(results: dict[str, Any]) -> str:
    """The two tables."""
    one = results["machine"]
    lines = [
        f"{one['cores']} cores of an {one['cpu']} (processor family {one['family']}), AVX-512, torch {one['torch']},",
        f"gloo, {one['date']}. Heads of width {WIDTH}, float32, zigzag shards.\n",
        f"| seconds at n = {LONG:,} | | one process | one rank | two ranks | two ÷ one rank | two ÷ one process |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in results.get("time", []):
        for clock in ("clock", "processor"):
            none, one_rank, two = (row[clock][name] for name in ("none", "one", "two"))
            lines.append(
                f"| {_name(row)}, {row['way']} | {clock} | {none:.2f} | {one_rank:.2f} | {two:.2f} "
                f"| {two / one_rank:.2f} | {two / none:.2f} |"
            )
    lines += [
        f"\n| ranks | n = {SHORT:,} | | MB sent a rank | least possible, MB | output | statistics | gradients |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in results.get("compare", []):
        errors = row["errors"]
        grads = max(errors[name] for name in ("dq", "dk", "dv"))
        stats = max(errors[name] for name in strop.RowStats._fields)
        lines.append(
            f"| {row['ranks']} | {_name(row)} | {row['way']} | {row['sent'] / 1e6:.2f} | {row['needed'] / 1e6:.2f} "
            f"| {errors['output']:.0e} | {stats:.0e} | {grads:.0e} |"
        )
    return "\n".join(lines)


def _name(row: dict[str, Any]) -> str:
    return f"{row['rule']}, {'causal' if row['causal'] else 'full'}"


def main() -> None:
    """Read arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["compare", "time"])
    parser.add_argument("--table", action="store_true", help="only write the page from the kept results")
    options = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        for name, measure in ({} if options.table else {"compare": compare_all, "time": time_all}).items():
            if options.only in (None, name):
                results |= {name: measure(f"{folder}/{name}-"), "machine": machine()}
                write_text(RESULTS, json.dumps(results, indent=1) + "\n")
    put_table(PAGE, "make bench-ranks", tabulate(results))


if __name__ == "__main__":
    main()
