"""Nothing is half patched unless the user accepts it, and no ordinary use is taken for that."""

from __future__ import annotations

import warnings

import families
import pytest
import torch
import torch.nn.functional as F
import transformers
from test_cover import TOWER, WrittenOut
from torch import Tensor, nn

from strop.errors import StateError, StropWarning, UnsupportedError
from strop.normalisers import Softmax
from strop.patching import observed, sharpened

PIXELS = torch.linspace(-1, 1, 3 * 16 * 16).view(1, 3, 16, 16)


@pytest.fixture
def git() -> nn.Module:
    """A reached tower before a language model that writes its softmax out."""
    return transformers.GitForCausalLM(transformers.GitConfig(**families.COMMON, vision_config=TOWER)).eval()


def test_attention_out_of_reach_is_refused_by_name(git: nn.Module) -> None:
    wrong = (
        r"every chosen attention module of GitForCausalLM must be reached, got 2 × git\.encoder\.layer\.\*\.attention\."
        r"self \(GitSelfAttention\), which writes its softmax out in its own code\. partial=True patches the rest"
    )
    for block in (sharpened(git, Softmax(2.0)), sharpened(git, Softmax(2.0), layers=["*"]),
                  sharpened(git, {"*": Softmax(2.0)}), observed(git)):  # fmt: skip
        with pytest.raises(UnsupportedError, match=wrong), block:
            pass


def test_who_names_what_is_reached_needs_no_more(git: nn.Module) -> None:
    for settings in ({"layers": [0, 1]}, {"layers": ["*.vision_model.*"]}):
        with sharpened(git, Softmax(2.0), **settings):
            git(families.ids(1, 5), pixel_values=PIXELS)
    with sharpened(git, {"*.vision_model.*": Softmax(2.0)}):
        git(families.ids(1, 5), pixel_values=PIXELS)


def test_partial_is_accepted_and_told_once(git: nn.Module) -> None:
    told = r"GitForCausalLM is patched in part: 2 × git\.encoder\.layer\.\*\.attention\.self"
    with pytest.warns(StropWarning, match=told), observed(git, partial=True) as seen:
        git(families.ids(1, 5), pixel_values=PIXELS)
    assert {call.name.split(".")[1] for call in seen.calls} == {"image_encoder"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with sharpened(git, Softmax(2.0), partial=True):
            git(families.ids(1, 5), pixel_values=PIXELS)


class Elsewhere(nn.Module):
    """Mentions torch's attention, and takes a softmax of its own when told to."""

    def __init__(self, away: bool) -> None:
        super().__init__()
        self.away = away

    def forward(self, x: Tensor) -> Tensor:
        return (x @ x.mT).softmax(-1) @ x if self.away else F.scaled_dot_product_attention(x, x, x)


def use(model: nn.Module, **settings: object) -> None:
    with sharpened(model, Softmax(2.0), **settings):
        model(torch.ones(1, 2, 3, 4))


def test_a_module_that_runs_past_us_is_an_error_at_the_end() -> None:
    model = nn.Sequential(Elsewhere(False), Elsewhere(True), Elsewhere(True))
    wrong = r"of Sequential must be reached, got 2 × \* \(Elsewhere\), which ran without calling the attention"
    with pytest.raises(StateError, match=wrong):
        use(model)
    with pytest.raises(StateError, match=wrong.replace("2 ×", "1 ×")):
        use(model, layers=[0, 1])
    use(model, layers=[0])
    with pytest.warns(StropWarning, match="Sequential is patched in part"):
        use(model, partial=True)


def test_vision_layers_that_look_past_the_interface() -> None:
    """Kosmos-2.5's ask for the attention function in a way that never finds it."""
    text = {"vocab_size": 97, "embed_dim": 32, "ffn_dim": 48, "layers": 1, "attention_heads": 4}
    tower = TOWER | {"head_dim": 8, "patch_embed_hidden_size": 12}
    config = transformers.Kosmos2_5Config(text_config=text, vision_config=tower, latent_query_num=4)
    model = transformers.Kosmos2_5ForConditionalGeneration(config).eval()
    patches = torch.rand(1, 6, 14)
    with (
        pytest.raises(
            StateError, match=r"2 × vision_model\.encoder\.layer\.\*\.attention \(Kosmos2_5VisionAttention\)"
        ),
        sharpened(model, Softmax(2.0)),
    ):
        model.vision_model(patches)
    with sharpened(model, Softmax(2.0)):
        model.text_model(families.ids(1, 5))


def test_text_alone_in_a_vision_language_model_is_no_fault() -> None:
    config = transformers.LlavaConfig(
        text_config=families.GROUPED | {"model_type": "llama"},
        vision_config=TOWER | {"model_type": "clip_vision_model"}, image_token_index=96,
    )  # fmt: skip
    model = transformers.LlavaForConditionalGeneration(config).eval()
    with sharpened(model, Softmax(2.0)):
        model(input_ids=families.ids(1, 5) - 1)


def test_a_decoder_alone_and_a_model_that_never_runs_are_no_fault() -> None:
    model = families.model("t5")
    with sharpened(model, Softmax(2.0)):
        model.encoder(families.ids(1, 5))
    with sharpened(model, Softmax(2.0)):
        pass


def test_a_wrapper_of_attention_is_not_taken_for_attention() -> None:
    class AttentionBlock(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.MultiheadAttention(4, 2, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            query, key = x, x.softmax(-1)
            return self.inner(query, key, x)[0] @ x.mT

    model = AttentionBlock()
    with sharpened(model, Softmax(2.0)):
        model(torch.ones(1, 3, 4))
    with pytest.raises(UnsupportedError), sharpened(nn.ModuleList([model, WrittenOut()]), Softmax(2.0)):
        pass
