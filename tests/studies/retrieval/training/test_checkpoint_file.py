import subprocess
import sys

import pytest
import torch

from strop.records import DamagedFileError, RecordsError
from strop.studies.retrieval.training.checkpoint_file import (
    load_tensors,
    load_trainer,
    load_weights,
    save_tensors,
    save_trainer,
    save_weights,
)
from strop.studies.retrieval.training.trainer import TrainConfig, Trainer

CONFIG = TrainConfig(steps=4, batch=4, average_last=2)


@pytest.fixture
def weights(tmp_path):
    trainer = Trainer(CONFIG)
    trainer.run(4)
    save_weights(tmp_path / "weights.safetensors", trainer)
    return tmp_path / "weights.safetensors"


def test_both_kinds_of_weights_come_back(weights):
    last, average = load_weights(weights, "last", CONFIG), load_weights(weights, "average", CONFIG)
    assert last.keys() == average.keys()
    assert not torch.equal(last["to_key.weight"], average["to_key.weight"])
    with pytest.raises(RecordsError, match="must hold 'best' weights"):
        load_weights(weights, "best")


@pytest.mark.parametrize("keep", [0, 5, 100, 200_000])
def test_a_cut_file_is_refused(weights, keep):
    weights.write_bytes(weights.read_bytes()[:keep])
    with pytest.raises(DamagedFileError, match="must be a whole safetensors file"):
        load_tensors(weights)


def test_one_changed_bit_is_refused(weights):
    data = bytearray(weights.read_bytes())
    data[-1000] ^= 1
    weights.write_bytes(data)
    with pytest.raises(DamagedFileError, match="another checksum"):
        load_tensors(weights)


def test_a_file_without_our_checksum_is_refused(tmp_path):
    from safetensors.torch import save_file

    save_file({"x": torch.zeros(3)}, tmp_path / "x.safetensors")
    with pytest.raises(DamagedFileError, match="another checksum"):
        load_tensors(tmp_path / "x.safetensors")


def test_a_file_of_another_config_is_refused(weights):
    with pytest.raises(RecordsError, match="must belong to this config"):
        load_tensors(weights, TrainConfig(seed=1, steps=4, batch=4, average_last=2))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(RecordsError, match=r"nothing\.safetensors must exist"):
        load_tensors(tmp_path / "nothing.safetensors")


def test_a_damaged_state_is_not_silently_begun_anew(tmp_path):
    path = tmp_path / "state.safetensors"
    trainer = Trainer(CONFIG)
    trainer.run(2)
    save_trainer(path, trainer)
    assert load_trainer(path, CONFIG).step == 2
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedFileError):
        load_trainer(path, CONFIG)


def test_a_full_disk_is_an_error_and_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.safetensors"
    save_tensors(path, {"x": torch.zeros(3)}, {}, 0)
    before = path.read_bytes()
    code = (
        "import resource, sys, torch, pathlib\n"
        "from strop.records import RecordsError\n"
        "from strop.studies.retrieval.training.checkpoint_file import save_tensors\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
        "try:\n"
        "    save_tensors(pathlib.Path(sys.argv[1]), {'x': torch.zeros(100_000)}, {}, 0)\n"
        "except RecordsError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert "Free some space" in done.stdout
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["x.safetensors"]
