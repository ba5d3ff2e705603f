"""One pass for each length: a record for each layer and head, and lengths that a model can read."""

from __future__ import annotations

import families
import pytest
import torch
import transformers

from strop.probing.measurement import check_lengths, default_lengths, measure_lengths, model_inputs
from strop.probing.summary import summarise, write_sentence

LENGTHS = (16, 32, 64)


def inputs(lengths: tuple[int, ...] = LENGTHS) -> dict[int, dict[str, torch.Tensor]]:
    return {n: {"input_ids": families.ids(1, max(lengths))[:, :n]} for n in lengths}


def test_one_record_for_each_length_layer_and_head() -> None:
    found = measure_lengths(families.model("llama"), inputs())
    assert len(found) == 3 * 2 * 4
    assert {(r["n"], r["layer"], r["head"]) for r in found} == {
        (n, layer, head) for n in LENGTHS for layer in (0, 1) for head in range(4)
    }
    heads = summarise(found)
    assert len(heads) == 8
    assert "tiny's 8 heads" in write_sentence("tiny", heads)


def test_a_causal_models_shorter_pass_is_a_prefix_of_its_longer_one() -> None:
    """Rows do not see later tokens, so what is measured at n does not depend on what follows."""
    tokens, model = families.ids(1, 64), families.model("llama")
    other = torch.cat([tokens[:, :32], families.ids(1, 32, seed=9)], 1)
    a, b = (measure_lengths(model, {32: {"input_ids": t[:, :32]}}) for t in (tokens, other))
    assert a == b


def test_a_module_that_runs_twice_is_two_layers() -> None:
    settings = families.COMMON | {"embedding_size": 16}
    model = transformers.AlbertModel(transformers.AlbertConfig(**settings)).eval()
    heads = summarise(measure_lengths(model, inputs()))
    assert [(head["layer"], head["head"]) for head in heads] == [(i, j) for i in (0, 1) for j in range(4)]


def test_lengths_stay_within_the_models_positions() -> None:
    model = families.model("llama")
    assert default_lengths(model) == (64, 128, 256)
    assert check_lengths(model, [64, 16, 64]) == (16, 64)
    with pytest.raises(ValueError, match="lengths must be at most the model's 256 positions, got 512"):
        check_lengths(model, [512])
    with pytest.raises(ValueError, match="lengths must be at least 8, got 4"):
        check_lengths(model, [4, 16])


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
    said = write_sentence("tiny", summarise(measure_lengths(model, inputs((64,)))))
    assert "was measured at one length, 64 tokens, which says nothing about growth" in said
    assert "sharp" not in said


def test_models_of_few_positions_have_several_lengths() -> None:
    def of(most: int) -> tuple[int, ...]:
        return default_lengths(families.fresh("llama", max_position_embeddings=most))

    assert of(20) == (10, 20)
    assert of(77) == (16, 32, 64)
    assert of(512) == (64, 128, 256, 512)
    assert of(8192) == (128, 256, 512, 1024, 2048)


def test_lengths_that_are_known_are_not_measured_again() -> None:
    known = measure_lengths(families.model("llama"), inputs((16, 32)))
    asked: list[int] = []
    found = measure_lengths(families.model("llama"), inputs(), known, lambda n, rows: asked.append(n))
    assert asked == [64]
    assert found == measure_lengths(families.model("llama"), inputs())


def test_an_encoder_decoder_reads_the_text_on_both_sides() -> None:
    tokens = families.ids(1, 16)
    assert set(model_inputs(families.model("llama"), {16: tokens})[16]) == {"input_ids"}
    both = model_inputs(families.model("t5"), {16: tokens})[16]
    assert torch.equal(both["input_ids"], tokens)
    assert torch.equal(both["decoder_input_ids"], tokens)
