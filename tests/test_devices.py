"""Verbs where a model's layers lie: everything is made there, and a model that accelerate spreads gives the same."""

from pathlib import Path

import pytest
import spread
import tiny
import torch
from click.testing import CliRunner
from safetensors.torch import load_file
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import strop
from strop.calibration.echoes import Tail
from strop.calibration.numbers import Numbers
from strop.calibration.optimiser import NaturalDescent
from strop.cli import demo
from strop.cli.group import strop as command
from strop.pretrained import Pretrained, devices
from strop.pretrained.text import Text
from strop.tasks import Passage
from strop.tasks.answers import Reader, answer_loss
from strop.tasks.prose import cut_windows

WORDS = Text("words", " ".join(f"{i} is {i * i}." for i in range(200)))
CALIBRATION = {
    "sizes": (2, 3), "steps": 2, "every": 1, "rate": 0.02, "budget": 5.0, "lengths": (32,), "windows": 1, "runs": None,
    "guard": ("counting",),
}  # fmt: skip
EVALUATION = {"sizes": (2,), "phrasings": ("code",), "prompts": 4, "lengths": (32,), "windows": 2, "runs": None}


def probe(model):
    found = strop.probe(model, tiny.tokeniser(), (16, 32), text=WORDS, runs=None, name="tiny")
    return found.config, found.records


def calibrate(model):
    edges = [
        strop.calibrate(model, tiny.tokeniser(), "recall", **CALIBRATION, form=form, recompute=recompute)
        for form, recompute in (("constant", False), ("polynomial", True))
    ]
    held = strop.calibrate(model, tiny.tokeniser(), form="hold", trusted=32, runs=None)
    return [edge.digest for edge in (*edges, held)]


def evaluate(model):
    gain = strop.evaluate(model, tiny.tokeniser(), tiny.edge(), **EVALUATION)
    return gain.answers, gain.prose


@pytest.mark.parametrize("way", spread.WAYS)
@pytest.mark.parametrize("verb", [probe, calibrate, evaluate])
def test_a_spread_model_gives_what_it_gives_in_memory(verb, way: str, tmp_path: Path):
    apart = spread.model(way, tmp_path)
    assert verb(apart) == verb(tiny.model())
    assert any(parameter.is_meta for parameter in apart.parameters())


def test_a_spread_model_is_sharpened_where_it_lies(tmp_path: Path):
    ids = torch.arange(3, 23)[None]
    found = []
    for model in (tiny.model(), spread.model("disk", tmp_path)):
        for rule in ("adaptive", "ssmax", tiny.edge()):
            with torch.no_grad(), strop.sharpened(model, rule):
                found.append(model(ids).logits)
    for one, other in zip(found[:3], found[3:], strict=True):
        assert torch.equal(one, other)


class OnOneDevice(TorchDispatchMode):
    """Fails on any tensor of numbers with axes that is made on another device; where answers stand, the CPU knows."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = device

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in tree_leaves(out):
            held = isinstance(x, torch.Tensor) and x.ndim and x.is_floating_point()
            assert not held or x.device.type == self.device, func
        return out


@pytest.mark.parametrize("form", ["constant", "log-n", "power-n", "polynomial"])
@pytest.mark.parametrize("again", [False, True], ids=["", "recomputed"])
def test_a_step_of_calibration_makes_everything_where_the_layers_are(form: str, again: bool, monkeypatch):
    """The meta device stands for a card: its tensors have a place and no numbers, which transformers would look at."""
    monkeypatch.setattr("transformers.masking_utils.find_packed_sequence_indices", lambda _: None)
    model = tiny.model().to("meta")
    reader = Reader(tiny.tokeniser(), torch.device("meta"))
    windows = cut_windows(reader, WORDS.text, 40, 2)
    numbers = Numbers(model, form, outputs=True)
    optimiser = NaturalDescent(list(numbers.parameters()))
    encoded = reader.encode(Passage("Oak is 7. ", (("Oak is", " 7"),)))
    tensors = [windows, encoded.context, encoded.ids, *numbers.parameters(), *optimiser.reach, *optimiser.mean]
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    with OnOneDevice("meta"), numbers.on(model, again=again):
        Tail(windows[:1], torch.zeros(8, device="meta")).loss(model).backward()
    assert all(parameter.grad.is_meta for parameter in numbers.parameters())


def test_questions_are_answered_where_the_model_is():
    model, device = tiny.model().to("meta"), torch.device("meta")
    encoded = Reader(tiny.tokeniser(), device).encode(
        Passage("Oak is 7. Elm is 8. ", (("Oak is", " 7"), ("Elm", " 8")))
    )
    with torch.no_grad(), OnOneDevice("meta"):
        assert answer_loss(model, [encoded]).is_meta


@pytest.fixture
def two_cards(monkeypatch):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)


def test_devices_by_name(two_cards):
    assert devices.list_devices() == ["cpu", "cuda:0", "cuda:1"]
    found = {name: str(devices.find_device(name)) for name in ("auto", "cpu", "cuda", "cuda:1", "spread")}
    assert found == {"auto": "cuda:0", "cpu": "cpu", "cuda": "cuda", "cuda:1": "cuda:1", "spread": "cuda:0"}
    with pytest.raises(ValueError, match=r"one that is there, got 'cuda:2'\. There are: cpu, cuda:0, cuda:1\."):
        devices.find_device("cuda:2")


def test_a_device_that_is_not_there_is_refused_before_anything_is_opened():
    assert devices.find_device("auto") == torch.device("cpu")
    for name in ("cuda", "gpu", "meta"):
        with pytest.raises(strop.StropError, match=rf"device must be .* got '{name}'\. There are: cpu"):
            strop.probe("smollm2", device=name)
    with pytest.raises(strop.StropError, match="dtype must be known, got 'float8'"):
        strop.probe("smollm2", dtype="float8")


VERBS = {
    "probe": [], "calibrate": [], "evaluate": ["--edge", "{edge}"], "diagnose": [], "demo": [],
    "export": ["--edge", "{edge}", "--to", "transformers", "--out", "{out}"],
}  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_refuses_a_device_that_is_not_there_before_it_begins(verb, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    edge, out = tmp_path / "made.safetensors", tmp_path / "out"
    tiny.edge().save(edge)
    given = [*([] if verb == "demo" else ["smollm2"]), *(part.format(edge=edge, out=out) for part in VERBS[verb])]
    monkeypatch.setattr(Pretrained, "open", lambda *_: pytest.fail("a model was opened"))
    monkeypatch.setattr(demo, "_retrieval", lambda _: pytest.fail("the demo began"))
    for device in ("cuda", "cuda:7", "gpu"):
        said = CliRunner().invoke(command, [verb, *given, "--device", device])
        assert said.exit_code == 2
        assert f"got '{device}'. There are: cpu. torch {torch.__version__} finds no card." in " ".join(
            said.stderr.split()
        )
    monkeypatch.setattr(devices, "find_spec", lambda _: None)
    said = CliRunner().invoke(command, [verb, *given, "--device", "spread"])
    assert "device spread must come with accelerate, got none installed. pip install accelerate." in said.stderr
    assert CliRunner().invoke(command, [verb, *given, "--dtype", "float8"]).exit_code == 2


def test_an_edge_is_exported_from_a_model_that_is_spread(tmp_path):
    folder = tiny.save(tmp_path / "model")
    for device in ("cpu", "spread"):
        strop.export(str(folder), tiny.edge(), to="transformers", out=tmp_path / device, device=device)
    one, other = (load_file(tmp_path / device / "model.safetensors") for device in ("cpu", "spread"))
    assert all(torch.equal(other[name].float(), numbers.float()) for name, numbers in one.items())


def test_a_model_that_is_no_name_stays_where_it_is(tmp_path: Path):
    for model, tokenizer in ((tiny.model(), tiny.tokeniser()), (Pretrained("smollm2"), None)):
        with pytest.raises(strop.StropError, match="must be left to a model that is no name, got cpu and auto"):
            strop.probe(model, tokenizer, device="cpu")


@pytest.mark.parametrize(("dtype", "expected"), [("auto", torch.float32), ("bfloat16", torch.bfloat16)])
def test_a_model_by_name_is_opened_as_asked(dtype: str, expected: torch.dtype, tmp_path: Path):
    folder = tiny.save(tmp_path / "model")
    for device in ("auto", "cpu", "spread"):
        model = Pretrained(str(folder), dtype, device=device).open(progress=False).model
        assert (next(model.parameters()).dtype, model.training) == (expected, False)
    gain = strop.evaluate(str(folder), edge=tiny.edge(), **EVALUATION, dtype="bfloat16", device="spread")
    assert gain.answers[0]["prompts"] == 4
