import os
import signal
import subprocess
import sys
import time

import pytest

from strop.records import RecordsError, Run
from strop.studies.retrieval.training.checkpoint_file import digest, load_tensors
from strop.studies.retrieval.training.resumable import STATE_FILE, train_or_continue
from strop.studies.retrieval.training.trainer import TrainConfig
from strop.studies.weights import WEIGHTS_FILE

CONFIG = TrainConfig(steps=600, batch=16, average_last=150)
CODE = """
import sys
from strop.records import Run
from strop.studies.retrieval.training.trainer import TrainConfig
from strop.studies.retrieval.training.resumable import train_or_continue
config = TrainConfig(steps=600, batch=16, average_last=150)
train_or_continue(config, Run.of(config, "t", sys.argv[1]), every=100)
"""


def test_a_run_killed_at_any_moment_ends_with_the_same_weights(tmp_path):
    whole = Run.of(CONFIG, "t", tmp_path / "whole")
    train_or_continue(CONFIG, whole, every=400)
    killed = Run.of(CONFIG, "t", tmp_path / "killed")
    process = subprocess.Popen([sys.executable, "-c", CODE, str(tmp_path / "killed")])
    while not (killed.folder / STATE_FILE).exists():
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not killed.finished
    assert int(load_tensors(killed.folder / STATE_FILE, CONFIG)[0]["step"]) % 100 == 0
    train_or_continue(CONFIG, killed, every=100)
    a, b = (load_tensors(run.folder / WEIGHTS_FILE, CONFIG)[0] for run in (whole, killed))
    assert digest(a) == digest(b)
    assert whole.records() == killed.records()
    assert not (killed.folder / STATE_FILE).exists()


def test_a_finished_run_is_not_trained_again(tmp_path):
    config = TrainConfig(steps=5, batch=4)
    run = Run.of(config, "t", tmp_path)
    path = train_or_continue(config, run)
    before = path.stat().st_mtime_ns
    assert train_or_continue(config, run) == path
    assert path.stat().st_mtime_ns == before


def test_a_finished_run_that_lost_its_weights_says_what_to_delete(tmp_path):
    config = TrainConfig(steps=5, batch=4)
    run = Run.of(config, "t", tmp_path)
    train_or_continue(config, run).unlink()
    with pytest.raises(RecordsError, match=f"must hold weights.safetensors, .* Delete {run.folder} and run again"):
        train_or_continue(config, run)
