"""What each rank of test_ranks.py runs, as torchrun would start it: `python sharing.py FOLDER [die]`."""

import json
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path

import tiny
import torch

import strop
from strop.calibration import descent
from strop.ranks import join_ranks

STEPS = 4


def find_edge(folder, model=None):
    """Calibrate and evaluate the tiny model; the runs are kept in the folder."""
    model = model or tiny.model()
    edge = strop.calibrate(
        model, tiny.tokeniser(), task="recall", sizes=(2, 4), steps=STEPS, every=2, lengths=(32, 48), windows=2,
        runs=folder, guard=("counting", "variables"),
    )  # fmt: skip
    gain = strop.evaluate(
        model,
        tiny.tokeniser(),
        edge,
        sizes=(2,),
        phrasings=("room",),
        prompts=6,
        questions=2,
        lengths=(32,),
        windows=3,
        runs=folder,
    )
    return edge, gain


def count_steps(die):
    """Count the steps that are made; the last rank is killed in the middle of the third."""
    own, made = descent._Descent._step, []

    def step(self):
        made.append(self.progress.step)
        if die and self.progress.step == 2 and self.ranks.rank == self.ranks.size - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        own(self)

    descent._Descent._step = step
    return made


def main(folder, die=False):
    torch.set_num_threads(1)
    made = count_steps(die)
    with join_ranks(timedelta(seconds=20)) as ranks:
        edge, gain = find_edge(folder / "runs")
        edge.save(folder / f"edge.{ranks.rank}")
        told = {"steps": made, "answers": gain.answers, "prose": gain.prose, "size": ranks.size}
    told["threads"] = tiny.threads_alive()  # while `ranks` is still known, as in a script
    (folder / f"told.{ranks.rank}").write_text(json.dumps(told))


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), bool(sys.argv[2:]))
    except strop.StropError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.exit(7)
