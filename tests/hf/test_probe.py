"""Probing from inputs to verdicts, on small models."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import transformers
from hf import families

from strop import records
from strop.hf import probe as module
from strop.hf.probe import ProbeConfig, check_lengths, default_lengths, measure_lengths, probe
from strop.hf.text import Text, default_text, windows

LENGTHS = (16, 32, 64)
CONFIG = ProbeConfig("tiny", LENGTHS, "ids", "0", "0")


def inputs(lengths: tuple[int, ...] = LENGTHS) -> dict[int, dict[str, torch.Tensor]]:
    return {n: {"input_ids": families.ids(1, max(lengths))[:, :n]} for n in lengths}


def test_one_record_for_each_length_layer_and_head() -> None:
    found = probe(families.model("llama"), inputs())
    assert len(found.records) == 3 * 2 * 4
    assert {(r["n"], r["layer"], r["head"]) for r in found.records} == {
        (n, layer, head) for n in LENGTHS for layer in (0, 1) for head in range(4)
    }
    assert len(found.heads) == 8
    assert "LlamaForCausalLM's 8 heads" in found.sentence


def test_a_causal_models_shorter_pass_is_a_prefix_of_its_longer_one() -> None:
    """Rows do not see later tokens, so what is measured at n does not depend on what follows."""
    tokens, model = families.ids(1, 64), families.model("llama")
    other = torch.cat([tokens[:, :32], families.ids(1, 32, seed=9)], 1)
    a, b = (measure_lengths(model, {32: {"input_ids": t[:, :32]}}) for t in (tokens, other))
    assert a == b


def test_a_module_that_runs_twice_is_two_layers() -> None:
    settings = families.COMMON | {"embedding_size": 16}
    model = transformers.AlbertModel(transformers.AlbertConfig(**settings)).eval()
    found = probe(model, inputs())
    assert [(head["layer"], head["head"]) for head in found.heads] == [(i, j) for i in (0, 1) for j in range(4)]


def test_an_interrupted_probe_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, whole, run = families.model("llama"), probe(families.model("llama"), inputs()), module._run
    calls: list[int] = []

    def stops_at_the_third(model: object, given: dict[str, torch.Tensor]) -> object:
        calls.append(given["input_ids"].shape[1])
        if len(calls) == 3:
            raise KeyboardInterrupt
        return run(model, given)

    monkeypatch.setattr(module, "_run", stops_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        probe(model, inputs(), config=CONFIG, root=tmp_path)
    assert not records.Run.of(CONFIG, "probe", root=tmp_path).finished
    resumed = probe(model, inputs(), config=CONFIG, root=tmp_path)
    assert calls == [16, 32, 64, 64]
    assert sorted(resumed.records, key=str) == sorted(whole.records, key=str)
    again = probe(model, inputs(), config=CONFIG, root=tmp_path)
    assert calls == [16, 32, 64, 64]
    assert again.heads == resumed.heads
    assert len(records.Run.of(CONFIG, "probe", root=tmp_path).records()) == 24


def test_lengths_stay_within_the_models_positions() -> None:
    model = families.model("llama")
    assert default_lengths(model) == (64, 128, 256)
    assert check_lengths(model, [64, 16, 64]) == (16, 64)
    with pytest.raises(ValueError, match="lengths must be at most the model's 256 positions, got 512"):
        check_lengths(model, [512])
    with pytest.raises(ValueError, match="lengths must be at least 8, got 4"):
        check_lengths(model, [4, 16])


class Words:
    """A tokeniser that puts 1 before a text and 2 after it, one token a word."""

    bos_token_id = 7

    def __init__(self, special: bool) -> None:
        self.special = special

    def __call__(self, text: str, add_special_tokens: bool = True, verbose: bool = True) -> dict[str, list[int]]:
        body = [10 + i for i, _ in enumerate(text.split())]
        return {"input_ids": [1, *body, 2] if add_special_tokens and self.special else body}


def test_windows_carry_the_models_special_tokens() -> None:
    text = Text("x", " ".join("a" * 20))
    made = windows(Words(special=True), text, (8, 16), samples=2, bos=False)
    assert made[8].tolist() == [[1, *range(10, 16), 2], [1, *range(16, 22), 2]]
    assert made[16].shape == (2, 16)
    assert windows(Words(special=False), text, (8,), samples=1, bos=True)[8].tolist() == [[7, *range(10, 17)]]
    with pytest.raises(ValueError, match=r"text must hold at least 30 tokens, got 20. Give a longer text"):
        windows(Words(special=True), text, (32,), samples=1, bos=False)


def test_the_default_text_is_long_and_says_what_it_is() -> None:
    text = default_text()
    assert len(text.text) > 400_000
    assert "argparse" in text.name
    assert len(text.sha256) == 64


def test_samples_are_averaged() -> None:
    model, both = families.model("llama"), families.ids(2, 32)
    together = measure_lengths(model, {32: {"input_ids": both}})
    apart = [measure_lengths(model, {32: {"input_ids": both[i : i + 1]}}) for i in (0, 1)]
    for whole, first, second in zip(together, *apart, strict=True):
        assert whole["entropy"] == pytest.approx((first["entropy"] + second["entropy"]) / 2, abs=1e-5)
        assert whole["spread_max"] == pytest.approx(max(first["spread_max"], second["spread_max"]), abs=1e-4)


def test_one_length_is_refused_and_claims_no_sharpness() -> None:
    model = families.model("llama")
    with pytest.raises(ValueError, match=r"lengths must be two or more, got \(64,\). One length says"):
        check_lengths(model, (64, 64))
    said = probe(model, inputs((64,))).sentence
    assert "was measured at one length, 64 tokens, which says nothing about growth" in said
    assert "sharp" not in said


def test_models_of_few_positions_have_several_lengths() -> None:
    def of(most: int) -> tuple[int, ...]:
        return default_lengths(families.fresh("llama", max_position_embeddings=most))

    assert of(20) == (10, 20)
    assert of(77) == (16, 32, 64)
    assert of(512) == (64, 128, 256, 512)
    assert of(8192) == (128, 256, 512, 1024, 2048)


def test_a_finished_probe_keeps_its_provenance_and_is_measured_once(tmp_path: Path) -> None:
    model = families.model("llama")
    first = probe(model, inputs(), config=CONFIG, root=tmp_path)
    assert first.folder is not None
    mark = first.folder / "done.json"
    before = mark.stat().st_mtime_ns
    again = probe(model, inputs(), config=CONFIG, root=tmp_path)
    assert again.records == first.records
    assert mark.stat().st_mtime_ns == before


def test_two_probes_at_once_do_not_double_lengths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = families.model("llama")
    held = records.Run.of(CONFIG, "probe", root=tmp_path)
    with ThreadPoolExecutor(1) as pool:
        with held.claimed():
            second = pool.submit(probe, model, inputs(), config=CONFIG, root=tmp_path)
            with pytest.raises(TimeoutError):
                second.result(timeout=0.5)  # it waits
        assert len(second.result(timeout=60).records) == 3 * 2 * 4
