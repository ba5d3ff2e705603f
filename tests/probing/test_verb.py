"""`strop.probe`: from a model and its tokeniser to verdicts, kept on disk and resumed."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import families
import folders
import pytest
import torch

import strop
from strop import records
from strop.patching.identity import digest_weights
from strop.pretrained.text import Text
from strop.probing import ProbeConfig, ProbeResult, measurement

LENGTHS = (16, 32, 64)
TEXT = Text("words", folders.text(200))


def probe(**changes: Any) -> ProbeResult:
    settings = {"lengths": LENGTHS, "text": TEXT, "runs": None, "name": "tiny"} | changes
    return strop.probe(families.model("llama"), folders.tokeniser(), **settings)


def test_a_model_and_its_tokeniser_give_records_heads_and_a_sentence() -> None:
    found = probe()
    assert {(r["n"], r["layer"], r["head"]) for r in found.records} == {
        (n, layer, head) for n in LENGTHS for layer in (0, 1) for head in range(4)
    }
    assert len(found.heads) == 8
    assert {head["n"] for head in found.heads} == {64}
    assert "tiny's 8 heads" in found.summary
    weights = digest_weights(families.model("llama"))
    assert found.config == ProbeConfig("tiny", LENGTHS, "words", TEXT.sha256, weights, 1, "float32")


def test_the_records_are_those_of_the_text() -> None:
    tokens = torch.tensor([folders.tokeniser()(TEXT.text)["input_ids"]])
    given = {n: {"input_ids": tokens[:, :n]} for n in LENGTHS}
    assert probe().records == measurement.measure_lengths(families.model("llama"), given)


def test_without_a_folder_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert probe(runs=None).folder is None
    assert list(tmp_path.iterdir()) == []
    assert probe(runs="runs").folder is not None  # the same call with a folder does keep something
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_a_probe_leaves_the_model_as_it_was() -> None:
    model = families.fresh("llama").train()
    model.model.layers[0].eval()
    modes = [module.training for module in model.modules()]
    strop.probe(model, folders.tokeniser(), LENGTHS, text=TEXT, runs=None)
    assert [module.training for module in model.modules()] == modes
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert model.config._attn_implementation == "sdpa"


def test_dropout_is_off_even_in_training_mode() -> None:
    model = families.fresh("gpt2").train()
    found = [strop.probe(model, folders.tokeniser(), LENGTHS, text=TEXT, runs=None).records for _ in range(2)]
    assert found[0] == found[1]
    assert found[0] == strop.probe(model.eval(), folders.tokeniser(), LENGTHS, text=TEXT, runs=None).records


def stops_at_the_third(calls: list[int]) -> Any:
    run = measurement._run

    def stop(model: object, given: dict[str, torch.Tensor]) -> object:
        calls.append(given["input_ids"].shape[1])
        if len(calls) == 3:
            raise KeyboardInterrupt
        return run(model, given)

    return stop


def test_an_interrupted_probe_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = probe()
    run, calls = records.Run.of(whole.config, "probe", root=tmp_path), []
    monkeypatch.setattr(measurement, "_run", stops_at_the_third(calls))
    with pytest.raises(KeyboardInterrupt):
        probe(runs=tmp_path)
    assert not run.finished
    resumed = probe(runs=tmp_path)
    assert calls == [16, 32, 64, 64]
    assert resumed.folder == run.folder
    assert sorted(resumed.records, key=str) == sorted(whole.records, key=str)
    again = probe(runs=tmp_path)
    assert calls == [16, 32, 64, 64]
    assert again.heads == resumed.heads
    assert len(run.records()) == 24


def test_a_finished_probe_keeps_its_provenance_and_is_measured_once(tmp_path: Path) -> None:
    first = probe(runs=tmp_path)
    assert first.folder is not None
    mark = first.folder / "done.json"
    before = mark.stat().st_mtime_ns
    assert probe(runs=tmp_path).records == first.records
    assert mark.stat().st_mtime_ns == before


def test_two_probes_at_once_do_not_double_lengths(tmp_path: Path) -> None:
    held = records.Run.of(probe().config, "probe", root=tmp_path)
    with ThreadPoolExecutor(1) as pool:
        with held.claim():
            second = pool.submit(probe, runs=tmp_path)
            with pytest.raises(TimeoutError):
                second.result(timeout=0.5)  # it waits
        assert len(second.result(timeout=60).records) == 3 * 2 * 4


def test_other_weights_texts_and_lengths_have_folders_of_their_own(tmp_path: Path) -> None:
    places = [
        probe(runs=tmp_path).folder,
        probe(runs=tmp_path, lengths=(16, 32)).folder,
        probe(runs=tmp_path, text=Text("others", folders.text(300))).folder,
        probe(runs=tmp_path, samples=2).folder,
        strop.probe(
            families.fresh("llama", seed=1), folders.tokeniser(), LENGTHS, text=TEXT, runs=tmp_path, name="tiny"
        ).folder,
    ]
    assert len(set(places)) == 5


def test_a_model_by_name_is_opened_without_its_head(tmp_path: Path) -> None:
    folder = folders.save(tmp_path / "word-model")
    found = strop.probe(str(folder), lengths=LENGTHS, text=TEXT, runs=None)
    assert found.config.model == "word-model"
    wanted = {(r["n"], r["layer"], r["head"]): r["entropy"] for r in probe().records}
    assert {(r["n"], r["layer"], r["head"]): r["entropy"] for r in found.records} == wanted
    assert found.heads[0]["name"] == "layers.0.self_attn"  # AutoModel, not the language model around it
    with pytest.raises(strop.StropError, match="tokenizer must be left out for a model by name, got Tokenizers"):
        strop.probe(str(folder), folders.tokeniser(), text=TEXT, runs=None)
    with pytest.raises(strop.StropError, match=r"tokenizer must come with a model, got none\. Or give"):
        strop.probe(families.model("llama"), text=TEXT, runs=None)


def test_a_model_is_called_as_it_calls_itself(tmp_path: Path) -> None:
    assert probe(name=None).config.model == "LlamaForCausalLM"
    model = type(families.model("llama")).from_pretrained(folders.save(tmp_path / "word-model"))
    found = strop.probe(model, folders.tokeniser(), LENGTHS, text=TEXT, runs=None)
    assert found.config.model == "word-model"


def test_a_text_may_be_a_path(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text(TEXT.text)
    for given in (path, str(path)):
        found = probe(text=given)
        assert found.records == probe().records
        assert found.config.text == "words.txt"
    with pytest.raises(ValueError, match="text must hold at least 256 tokens, got 200"):
        probe(text=path, lengths=None)


def test_the_model_is_read_where_it_is() -> None:
    elsewhere = families.fresh("llama").to("meta")
    assert measurement.model_inputs(elsewhere, {8: families.ids(1, 8)})[8]["input_ids"].device.type == "meta"


def test_what_it_says_of_itself_as_a_line_a_table_and_a_page(tmp_path: Path) -> None:
    found = probe()
    assert repr(found) == f"<ProbeResult of tiny at 16, 32, 64 tokens: {found.summary}>"
    assert len(found.table().rows) == 8
    assert found.table().caption == "The 8 heads that blunt fastest"
    few = found.table(3)
    assert few.caption == "The 3 heads that blunt fastest"
    slopes = sorted(head["slope"] for head in found.heads)
    at = [column.key for column in few.columns].index("slope")
    assert [row[at] for row in few.rows] == slopes[:3]
    path = found.report(tmp_path / "deep" / "report.html")
    html = path.read_text()
    assert path == tmp_path / "deep" / "report.html"
    assert found.summary.replace("'", "&#39;") in html
    assert TEXT.sha256 in html
    assert found.page().title == "How sharp is tiny?"


def test_the_folder_says_what_was_measured(tmp_path: Path) -> None:
    found = probe(runs=tmp_path)
    assert found.folder is not None
    assert found.folder.parent == tmp_path / "probe"
    config = json.loads((found.folder / "config.json").read_text())
    assert (config["class"], config["model"], config["lengths"]) == ("ProbeConfig", "tiny", [16, 32, 64])
