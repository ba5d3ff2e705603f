"""An edge as a folder with a card, and on a hub (whose functions are played by the tests: no network)."""

import re
from dataclasses import replace
from pathlib import Path

import huggingface_hub
import pytest
import tiny
import torch

from edges.test_edge import edge, logits
from strop import Edge
from strop.edges.card import make_card
from strop.errors import ArgumentError, DamagedFileError, EdgeFileError

ANSWERS = {"task": "recall", "phrasing": "room", "size": 16, "prompts": 48, "before": 0.5, "after": 0.8125}
PROSE = {"tokens": 256, "change": 0.0041}


def made() -> Edge:
    recipe = {"task": "recall", "data": None}
    return replace(
        edge(tiny.model(), outputs=True), made={"model": "small", "recipe": recipe}, figures=(ANSWERS, PROSE)
    )


def same(one: Edge, other: Edge) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in ("digest", "fingerprint", "made", "figures"))


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    def asked(*_, **__):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", asked)
    monkeypatch.setattr(huggingface_hub, "HfApi", asked)


def test_a_folder_and_its_file_give_the_edge_back(tmp_path: Path):
    first, folder = made(), tmp_path / "deep" / "edge"
    assert first.save_pretrained(folder) == folder
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "edge.safetensors"]
    for place in (folder, str(folder), folder / "edge.safetensors", str(folder / "edge.safetensors")):
        assert same(Edge.from_pretrained(place), first)
    model = tiny.model()
    with first.put_on(model):
        wanted = logits(model)
    with Edge.from_pretrained(folder).put_on(model):
        assert torch.equal(logits(model), wanted)
    (tmp_path / "kept.edge").write_bytes((folder / "edge.safetensors").read_bytes())
    assert same(Edge.from_pretrained(tmp_path / "kept.edge"), first)


def test_the_home_folder_may_be_a_tilde(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    made().save_pretrained(tmp_path / "edge")
    assert same(Edge.from_pretrained("~/edge"), made())


def test_what_is_no_edge_is_told_with_what_was_looked_for(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(EdgeFileError, match=r"empty/edge\.safetensors must be an edge, got no such file"):
        Edge.from_pretrained(tmp_path / "empty")
    for name in ("edge", str(tmp_path / "nothing"), "a/b/c", "./nothing", "../nothing"):
        with pytest.raises(EdgeFileError, match="must be a folder, a file or a hub name owner/name, got none of them"):
            Edge.from_pretrained(name)
    with pytest.raises(EdgeFileError, match=r"runs/edge\.safetensors must be an edge, got no such file"):
        Edge.from_pretrained("runs/edge.safetensors")
    (tmp_path / "torn").write_bytes(b"no")
    with pytest.raises(DamagedFileError, match="torn must be a whole safetensors file"):
        Edge.from_pretrained(tmp_path / "torn")


def test_a_hub_name_is_fetched_at_its_revision(tmp_path: Path, monkeypatch):
    first, asked = made(), []
    first.save(tmp_path / "cached")

    def download(name, file, revision):
        asked.append((name, file, revision))
        return str(tmp_path / "cached")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    assert same(Edge.from_pretrained("owner/smol-edge"), first)
    assert same(Edge.from_pretrained("owner/smol-edge", revision="v1"), first)
    assert asked == [("owner/smol-edge", "edge.safetensors", None), ("owner/smol-edge", "edge.safetensors", "v1")]


@pytest.mark.parametrize("error", [OSError, ValueError, RuntimeError])
def test_a_hub_that_does_not_have_it_is_told_in_one_line(monkeypatch, error):
    def absent(*_, **__):
        raise error("404\n  not found")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", absent)
    rule = r"owner/none must be a folder, or a hub repository with edge\.safetensors, got: 404 not found"
    with pytest.raises(EdgeFileError, match=rule):
        Edge.from_pretrained("owner/none")


class Api:
    """A hub that remembers what it was given."""

    def __init__(self) -> None:
        self.made: list[tuple[str, bool, bool]] = []
        self.given: dict[str, bytes] = {}

    def create_repo(self, name: str, private: bool, exist_ok: bool) -> str:
        self.made.append((name, private, exist_ok))
        return f"https://hub.example/{name}"

    def upload_folder(self, repo_id: str, folder_path: str, commit_message: str) -> None:
        assert repo_id == self.made[-1][0]
        assert commit_message
        self.given = {path.name: path.read_bytes() for path in Path(folder_path).iterdir()}


def test_an_edge_is_pushed_with_its_card(tmp_path: Path, monkeypatch):
    hub = Api()
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: hub)
    first = made()
    assert first.push_to_hub("owner/smol-edge", private=True) == "https://hub.example/owner/smol-edge"
    assert hub.made == [("owner/smol-edge", True, True)]
    assert set(hub.given) == {"README.md", "edge.safetensors"}
    (tmp_path / "edge").write_bytes(hub.given["edge.safetensors"])
    assert same(Edge.load(tmp_path / "edge"), first)
    assert hub.given["README.md"].decode() == make_card(first)
    first.push_to_hub("owner/other")
    assert hub.made[-1] == ("owner/other", False, True)
    for name in ("smol-edge", "a/b/c", "owner/", "owner/a b", "./edge"):
        with pytest.raises(ArgumentError, match=re.escape(f"name must be owner/name, got {name!r}")):
            first.push_to_hub(name)
    assert len(hub.made) == 2


def test_the_card_says_for_which_model_how_and_what_it_gained():
    card = make_card(made())
    head, _, body = card.removeprefix("---\n").partition("---\n")
    assert "library_name: strop" in head
    assert "# An edge for small" in body
    weights = made().fingerprint
    assert f"| model | small, family `llama`, weights `{weights}` |" in body
    assert "| form | constant and outputs |" in body
    assert "| calibrated on | recall |" in body
    assert "strop.Edge.from_pretrained(" in body
    assert "- recall “room”, size 16: 50.0 → 81.2 % of 48 prompts answered exactly" in body
    assert "- prose of 256 tokens: +0.0041 nats a token" in body
    assert made().summary in body
    assert "Not measured yet" not in body


def test_the_card_of_an_edge_that_was_not_measured_says_so():
    card = make_card(edge(tiny.model(), "none", outputs=True))
    assert "Not measured yet: `strop evaluate MODEL --edge edge.safetensors`." in card
    assert "| form | outputs |" in card
    own = replace(made(), made={"recipe": {"task": "jsonl", "data": "own.jsonl"}})
    assert "| calibrated on | own.jsonl |" in make_card(own)
    assert "# An edge for the model it was made for" in make_card(own)
