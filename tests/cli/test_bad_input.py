"""Kinds of bad input on the command line, each with what it must be told: the rule, what was given, what to do.

Every message fits a terminal of 60 columns by wrapping at spaces, comes without a traceback, and ends with the exit
code of a mistyped command (2) or of a failure (1). No model but a tiny one is ever opened.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiny
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

from strop import _extras as extras
from strop.cli import group
from strop.edges import Edge
from strop.edges.edge_file import KEY
from strop.edges.temperatures import Constant
from strop.patching.identity import heads_of

TINY = "models/tiny"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny model and a good deal that is wrong."""
    folder = tmp_path_factory.mktemp("place")
    tiny.save(folder / "models" / "tiny")
    (folder / "bare").mkdir()
    (folder / "bare" / "config.json").write_text("{}")
    for name, content in {
        "notes.txt": b"some words to read " * 20, "empty.txt": b" \n", "latin.txt": "naïve".encode("latin-1"),
        "report.html": b"", "weights.gguf": b"GGUF", "few.jsonl": b'{"prompt": "a", "answer": "b"}\n',
        "bad.jsonl": b'{"prompt": "a", "answer": "b"}\n{"prompt": "a"\n', "empty.jsonl": b"",
        "unanswered.jsonl": b'{"prompt": "a", "answer": " "}\n', "torn.safetensors": b"torn",
    }.items():  # fmt: skip
        (folder / name).write_bytes(content)
    _save_edges(folder)
    return folder


def _save_edges(folder: Path) -> None:
    for name, model in (("mine", tiny.model()), ("another", tiny.model(seed=1))):
        rules = {module: Constant(torch.zeros(heads, 1)) for module, heads in heads_of(model).items()}
        Edge.of(model, {"constant": rules}).save(folder / f"{name}.safetensors")
    whole = (folder / "mine.safetensors").read_bytes()
    (folder / "changed.safetensors").write_bytes(whole.replace(b"constant", b"polynoms"))
    save_file({"x": torch.zeros(1)}, folder / "foreign.safetensors")
    newer = json.dumps({"format": 99})
    save_file({"x": torch.zeros(1)}, folder / "newer.safetensors", metadata={KEY: newer})


PROBE = [
    ("", "Missing argument 'MODEL'"),
    ("nothing-like-it", "model must be known, got 'nothing-like-it'. Known: smollm2, gemma3-270m, minilm."),
    ("smolm2", "Did you mean 'smollm2'?"),
    ("./modles/tiny", "model must be an existing folder or GGUF file, got './modles/tiny'. Did you mean models/tiny?"),
    ("modle.gguf", "model must be an existing folder or GGUF file, got 'modle.gguf'. Check the path."),
    ("models/tiny/deeper", "got 'models/tiny/deeper'"),
    ("models\\tiny", "model must be an existing folder"),
    ("models", "models must hold config.json, got none. A model folder has"),
    ("bare", "bare must hold weights, got none."),
    ("owner/name", "got 'owner/name': there is no such folder, and HF_HUB_OFFLINE is set"),
    (f"{TINY} --text note.txt", "'--text': must exist, got note.txt. Did you mean notes.txt?"),
    (f"{TINY} --text models", "'--text': must be a file, got the folder models."),
    (f"{TINY} --text empty.txt", "text must hold words, got an empty file, empty.txt."),
    (f"{TINY} --text latin.txt", "latin.txt must be UTF-8 text, got other bytes. Convert it first."),
    (f"{TINY} --lengths 16,x", "must be integers between commas, got '16,x'. For example 128,512,2048."),
    (f"{TINY} --lengths 4,16", "must be at least 8, got 4."),
    (f"{TINY} --lengths -8", "must be at least 8, got -8."),
    (f"{TINY} --lengths 16", "lengths must be two or more, got (16,). One length says nothing about growth."),
    (f"{TINY} --lengths 16,5000", "got 5000. beyond=True, or --beyond, goes further."),
    (f"{TINY} --text notes.txt --lengths 16,900", "text must hold at least 900 tokens, got 380. Give a longer text"),
    (f"{TINY} --samples 0", "0 is not in the range x>=1."),
    (f"{TINY} --samples two", "'two' is not a valid integer"),
    (f"{TINY} --out report.html", "must not be there yet, got a file of that name. Choose another name, such as "
                                  "report-2.html, or add --force."),
    (f"{TINY} --out models", "models must be a file to write, got a folder. For example models/report.html."),
    (f"{TINY} --out weights.gguf/r.html", "weights.gguf must be a folder to write to, got"),
    (f"{TINY} --runs weights.gguf", "which is a file. Choose another folder."),
    (f"{TINY} --dtype float8", "'float8' is not one of"),
    (f"{TINY} --threads 0", "0 is not in the range x>=1."),
    (f"{TINY} --lenghts 16", "No such option"),
]  # fmt: skip
CALIBRATE = [
    ("./modle", "model must be an existing folder or GGUF file, got './modle'."),
    (f"{TINY} --task recal", "task must be known, got 'recal'. Did you mean 'recall'? Known: "),
    (f"{TINY} --task jsonl", "--task jsonl must come with --data FILE, got no file."),
    (f"{TINY} --task recall --data few.jsonl", "--task must be left out with --data"),
    (f"{TINY} --data fiew.jsonl", "must exist, got fiew.jsonl. Did you mean few.jsonl?"),
    (f"{TINY} --data few.jsonl", "few.jsonl must hold at least 5 prompts, got 1."),
    (f"{TINY} --data empty.jsonl", "empty.jsonl must hold prompts, got an empty file."),
    (f"{TINY} --data bad.jsonl", 'bad.jsonl line 2 must be {"prompt": …, "answer": …}, got \'{"prompt": "a"\'. Mend'),
    (f"{TINY} --data unanswered.jsonl", "unanswered.jsonl line 1 must have a prompt and an answer of text"),
    (f"{TINY} --data latin.txt", "latin.txt must be UTF-8 text"),
    (f"{TINY} --sizes 3", "sizes must be the smallest and the largest, got (3,). For example 8,24."),
    (f"{TINY} --sizes 9,3", "sizes must be two bounds, the smaller first, got (9, 3)."),
    (f"{TINY} --sizes 0,3", "must be at least 1, got 0."),
    (f"{TINY} --form cubic", "form must be known, got 'cubic'."),
    (f"{TINY} --form log_n", "Did you mean 'log-n'?"),
    (f"{TINY} --form none --no-outputs", "form must have numbers to learn, got none."),
    (f"{TINY} --form hold --budget 0.1", "--budget must be left out with --form hold"),
    (f"{TINY} --budget -1", "budget must be a finite number greater than 0, got -1.0."),
    (f"{TINY} --rate nan", "rate must be a finite number greater than 0, got nan."),
    (f"{TINY} --harm 0", "harm must be a finite number greater than 0, got 0.0."),
    (f"{TINY} --sparsity -1", "sparsity must be at least 0, got -1.0."),
    (f"{TINY} --phrasings ticket", "must not be held out"),
    (f"{TINY} --phrasings rome", "phrasing of lookup must be known, got 'rome'."),
    (f"{TINY} --guard countin", "Did you mean 'counting'?"),
    (f"{TINY} --guard lookup", "guard must name other tasks than the one to learn, got lookup."),
    (f"{TINY} --lengths 64,64", "lengths must not repeat, got 64 more than once."),
    (f"{TINY} --prose prose.txt", "'--prose': must exist, got prose.txt."),
    (f"{TINY} --prose empty.txt", "empty.txt must hold words, got an empty file."),
    (f"{TINY} --steps 0", "0 is not in the range x>=1."),
    (f"{TINY} --test-prompts -1", "-1 is not in the range x>=0."),
    (f"{TINY} --seed -1", "-1 is not in the range x>=0."),
    (f"{TINY} --out mine.safetensors", "Choose another name, such as mine-2.safetensors, or add --force."),
]  # fmt: skip
EVALUATE = [
    (TINY, "Missing option '--edge'"),
    (f"{TINY} --edge nowhere", "nowhere must be a folder, a file or a hub name owner/name, got none of them."),
    (f"{TINY} --edge no.safetensors", "no.safetensors must be an edge, got no such file. Make one"),
    (f"{TINY} --edge foreign.safetensors", "must be an edge, got other safetensors. Give the file that"),
    (f"{TINY} --edge newer.safetensors", "must have format 1 or older, got 99: a newer strop wrote it. Update strop."),
    (f"{TINY} --edge another.safetensors", "Calibrate this model, or use the edge with the model it was made for."),
    (f"{TINY} --edge mine.safetensors --task counts", "task must be known, got 'counts'."),
    (f"{TINY} --edge mine.safetensors --sizes 4,4", "sizes must not repeat, got 4 more than once."),
    (f"{TINY} --edge mine.safetensors --data few.jsonl --prompts 9", "--prompts must be left out with --data"),
    (f"{TINY} --edge mine.safetensors --against nowhere", "nowhere must be a folder, a file or a hub name"),
    (f"{TINY} --edge mine.safetensors --prose empt.txt", "must exist, got empt.txt. Did you mean empty.txt?"),
]  # fmt: skip
OTHERS = [
    ("prob", "No verb 'prob'. Did you mean probe?"),
    ("arena --tasks max_retreival", "Did you mean 'max_retrieval'?"),
    ("arena --normalisers sofmax", "Did you mean 'softmax'?"),
    ("arena --rates fast", "--rates must be numbers between commas, got 'fast'. For example 0.001,0.004."),
    ("arena --address auto", "--address must come with --engine ray, got auto. Add --engine ray."),
    ("arena --out weights.gguf", "weights.gguf must be a folder to write to"),
    ("reproduce --settings best", "settings must be known, got best"),
    ("reproduce --sizes 16,0", "must be at least 1, got 0."),
    ("reproduce --out weights.gguf", "weights.gguf must be a folder to write to"),
]
FAILED = [
    ("probe weights.gguf", "weights.gguf must be a whole GGUF file, got: "),
    (f"evaluate {TINY} --edge torn.safetensors", "torn.safetensors must be a whole safetensors file, got: "),
    (f"evaluate {TINY} --edge changed.safetensors", "changed.safetensors must be as it was written, got a changed"),
]  # fmt: skip
CASES = [
    *((f"probe {words}", message, 2) for words, message in PROBE),
    *((f"calibrate {words}", message, 2) for words, message in CALIBRATE),
    *((f"evaluate {words}", message, 2) for words, message in EVALUATE),
    *((words, message, 2) for words, message in OTHERS),
    *((words, message, 1) for words, message in FAILED),
]


def tell(words: str, monkeypatch: pytest.MonkeyPatch, place: Path) -> tuple[int, str]:
    """Run a command on a terminal of 60 columns; return the exit code and what it said on stderr."""
    monkeypatch.chdir(place)
    monkeypatch.setattr(group, "columns", lambda _: 60)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    result = CliRunner().invoke(group.strop, words.split(), prog_name="strop")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stderr


def test_there_are_sixty_kinds():
    assert len({words for words, _, _ in CASES}) == len(CASES) >= 60


@pytest.mark.filterwarnings("always::strop.errors.StropWarning")
@pytest.mark.parametrize(("words", "message", "code"), CASES, ids=[words for words, _, _ in CASES])
def test_bad_input_is_told(words: str, message: str, code: int, monkeypatch: pytest.MonkeyPatch, place: Path):
    found, said = tell(words, monkeypatch, place)
    assert message in " ".join(said.split()), said
    assert found == code
    assert "Traceback" not in said
    ours = said[said.index("strop: ") :]
    assert all(len(line) <= 60 or " " not in line for line in ours.splitlines()), said


def test_bad_input_leaves_nothing_behind(place: Path):
    """Neither a folder of runs nor a report: the cases above have run by now, or none has."""
    assert not (place / "runs" / "index.jsonl").exists()
    assert (place / "report.html").read_bytes() == b""


@pytest.mark.parametrize("verb", [f"probe {TINY}", f"calibrate {TINY}", f"evaluate {TINY} --edge mine.safetensors"])
def test_a_missing_extra_is_told_with_the_command_that_adds_it(verb: str, monkeypatch: pytest.MonkeyPatch, place: Path):
    monkeypatch.setattr(extras, "extras", lambda: {"hf": ["transformers"], "report": ["no-such-package"]})
    code, said = tell(verb, monkeypatch, place)
    assert code == 2
    assert "strop: this needs the package 'no-such-package'. Add it with: pip install " in " ".join(said.split())
    assert "[report]" in said
