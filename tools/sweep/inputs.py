"""One batch of two for any model, made from what its `forward` asks for.

Recipes are tried in order, the richest first: a model that reads images and text gets both if it takes them. Where
transformers says that image tokens and features do not match it also says how many features there are; the text is
then given as many places.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from sweep.configs import FIRST_SPECIAL

BATCH, LENGTH, DECODED, GRID = 2, 12, 7, 4
Inputs = dict[str, Any]

IMAGE_TOKENS = ("image_token_id", "image_token_index", "im_patch_id", "media_token_id", "media_placeholder_token_id")
SOUND_TOKENS = ("audio_token_id", "audio_token_index", "audio_prompt_token_id")
MISMATCH = re.compile(r"tokens: ?(\d+),? features:? ?(\d+)")


def candidates(model: nn.Module) -> Iterator[tuple[str, Inputs]]:
    """Inputs worth trying, by the kind of what is read."""
    asked = set(inspect.signature(model.forward).parameters)
    for kind, recipe in RECIPES:
        made = _try(recipe, model, asked)
        if made is not None and made.keys() <= asked:
            yield kind, made | _decoded(model, asked, made)


def runnable(model: nn.Module, run: Callable[[Inputs], object]) -> tuple[str, Inputs]:
    """The first inputs that the model takes; or all its complaints."""
    complaints: list[str] = []
    for kind, inputs in candidates(model):
        for attempt in range(3):
            try:
                run(inputs)
            except Exception as error:
                complaints.append(f"{kind}: {type(error).__name__}: {str(error)[:200]}")
                wanted = MISMATCH.search(str(error))
                if wanted is None or not _make_room(model, inputs, _count(model, int(wanted[2]), attempt), kind):
                    break
            else:
                return kind, inputs
    raise ValueError(" · ".join(complaints) or "no inputs can be made for it")


def _try(recipe: Callable[[nn.Module, set[str]], Inputs | None], model: nn.Module, asked: set[str]) -> Inputs | None:
    try:
        return recipe(model, asked)
    except (AttributeError, TypeError, IndexError):  # a config without the field that the recipe reads
        return None


def _make_room(model: nn.Module, inputs: Inputs, features: int, kind: str) -> bool:
    """Give the text as many places for an image or a sound as it has features."""
    token = _token(model, SOUND_TOKENS if "sound" in kind else IMAGE_TOKENS)
    if token is None or "input_ids" not in inputs or features % BATCH:
        return False
    places = torch.full((BATCH, features // BATCH), token)
    text = _text()
    inputs["input_ids"] = torch.cat([text[:, :4], places, text[:, 4:]], 1)
    for name in ("attention_mask", "mm_token_type_ids", "token_type_ids"):
        if name in inputs:
            inputs[name] = _beside(name, inputs["input_ids"], token)
    return True


def _count(model: nn.Module, said: int, attempt: int) -> int:
    """How many features are meant: some models count features, others their elements."""
    width = model.config.get_text_config().hidden_size
    return said // width if said % width == 0 and attempt == 0 else said


def _beside(name: str, ids: Tensor, token: int) -> Tensor:
    return torch.ones_like(ids) if name == "attention_mask" else (ids == token).long()


def _token(model: nn.Module, names: tuple[str, ...]) -> int | None:
    found = (getattr(model.config, name, None) for name in names)
    return next((token for token in found if isinstance(token, int)), None)


def _decoded(model: nn.Module, asked: set[str], made: Inputs) -> Inputs:
    if "decoder_input_ids" not in asked or "decoder_input_ids" in made:
        return {}
    return {"decoder_input_ids": _text(DECODED, seed=3)} if getattr(model.config, "is_encoder_decoder", False) else {}


def _noise(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(2))


def _text(length: int = LENGTH, seed: int = 1) -> Tensor:
    return torch.randint(3, FIRST_SPECIAL, (BATCH, length), generator=torch.Generator().manual_seed(seed))


def _read_text(model: nn.Module, asked: set[str]) -> Inputs:
    masked = {"attention_mask": torch.ones(BATCH, LENGTH, dtype=torch.long)} if "attention_mask" in asked else {}
    boxed = {"bbox": torch.randint(0, 9, (BATCH, LENGTH, 4)).sort(-1).values} if "bbox" in asked else {}
    return {"input_ids": _text()} | masked | boxed


def _vision(model: nn.Module) -> Any:
    config = model.config
    for name in ("vision_config", "image_config", "vision_encoder_config", "backbone_config", "encoder"):
        if getattr(config, name, None) is not None:
            return getattr(config, name)
    return config


def _side(config: Any) -> int:
    size = getattr(config, "image_size", None) or getattr(config, "img_size", None) or 32
    return int(size if isinstance(size, int) else size[0])


def _pixels(model: nn.Module, frames: tuple[int, ...] = ()) -> Tensor:
    vision = _vision(model)
    channels = getattr(vision, "num_channels", None) or getattr(vision, "in_channels", None) or 3
    side = _side(vision)
    return _noise(BATCH, *frames, channels if isinstance(channels, int) else 3, side, side)


def _image(model: nn.Module, asked: set[str]) -> Inputs:
    return {"pixel_values": _pixels(model)}


def _large_image(model: nn.Module, asked: set[str]) -> Inputs:
    return {"pixel_values": _noise(BATCH, 3, 64, 64)}


def _image_and_text(model: nn.Module, asked: set[str]) -> Inputs:
    types = {name: torch.zeros(BATCH, LENGTH, dtype=torch.long) for name in ("mm_token_type_ids",) if name in asked}
    return _image(model, asked) | _read_text(model, asked) | types


def _typed_image_and_text(model: nn.Module, asked: set[str]) -> Inputs:
    return _image_and_text(model, asked) | {"token_type_ids": torch.zeros(BATCH, LENGTH, dtype=torch.long)}


def _several_images_and_text(model: nn.Module, asked: set[str]) -> Inputs:
    return _read_text(model, asked) | {"pixel_values": _pixels(model, (1,))}


def _sized_images_and_text(model: nn.Module, asked: set[str]) -> Inputs:
    side = _side(_vision(model))
    sizes = torch.tensor([[side, side]] * BATCH)
    return _image_and_text(model, asked) | {"image_sizes": sizes}


def _tiled_images_and_text(model: nn.Module, asked: set[str]) -> Inputs:
    side = _side(_vision(model))
    made = _read_text(model, asked) | {"image_sizes": torch.tensor([[side, side]] * BATCH)}
    return made | {"pixel_values": _pixels(model, (3,))}


def _patches(model: nn.Module) -> Tensor:
    vision = _vision(model)
    channels = getattr(vision, "in_channels", None) or getattr(vision, "num_channels", None) or 3
    times = getattr(vision, "temporal_patch_size", 1)
    return _noise(BATCH * GRID * GRID, channels * times * vision.patch_size**2)


def _grid() -> Tensor:
    return torch.tensor([[1, GRID, GRID]] * BATCH)


def _patches_and_text(model: nn.Module, asked: set[str]) -> Inputs | None:
    made = _read_text(model, asked) | {"pixel_values": _patches(model), "image_grid_thw": _grid()}
    typed = {"mm_token_type_ids": torch.zeros(BATCH, LENGTH, dtype=torch.long)} if "mm_token_type_ids" in asked else {}
    return made | typed


def _bare_patches(model: nn.Module, asked: set[str]) -> Inputs:
    return {"hidden_states": _patches(model), "grid_thw": _grid()}


def _pixel_patches(model: nn.Module, asked: set[str]) -> Inputs:
    return {"pixel_values": _patches(model), "grid_thw": _grid()}


def _video(model: nn.Module, asked: set[str]) -> Inputs:
    name = "pixel_values" if "pixel_values" in asked else "pixel_values_videos"
    frames = next((n for n in (getattr(model.config, f, None) for f in ("num_frames", "frames_per_clip")) if n), 4)
    return {name: _pixels(model, (frames,))}


def _bins(model: nn.Module) -> int:
    parts = [model.config, *(getattr(model.config, name, None) for name in ("audio_config", "encoder_config"))]
    names = ("num_mel_bins", "feature_size", "input_feat_per_channel", "mel_dim", "feature_projection_input_dim",
             "input_dim", "input_feat_size", "n_mels")  # fmt: skip
    found = (getattr(part, name, None) for part in parts for name in names)
    return next((bins for bins in found if isinstance(bins, int)), 80)


def _sound_frames(model: nn.Module) -> int:
    parts = [model.config, getattr(model.config, "audio_config", None)]
    return next((2 * p.max_source_positions for p in parts if hasattr(p, "max_source_positions")), 64)


def _spectrum(model: nn.Module, asked: set[str]) -> Inputs:
    return {"input_features": _noise(BATCH, _bins(model), _sound_frames(model))}


def _spectrum_by_time(model: nn.Module, asked: set[str]) -> Inputs:
    masked = {"attention_mask": torch.ones(BATCH, 64, dtype=torch.long)} if "attention_mask" in asked else {}
    return {"input_features": _noise(BATCH, 64, _bins(model))} | masked


def _masked_spectrum(model: nn.Module, asked: set[str]) -> Inputs:
    frames = _sound_frames(model)
    return _spectrum(model, asked) | {"input_features_mask": torch.ones(BATCH, frames, dtype=torch.long)}


def _masked_spectrum_by_time(model: nn.Module, asked: set[str]) -> Inputs:
    made = {"input_features": _noise(BATCH, 64, _bins(model))}
    return made | {"input_features_mask": torch.ones(BATCH, 64, dtype=torch.bool)}


def _with_text(sound: Callable[[nn.Module, set[str]], Inputs]) -> Callable[[nn.Module, set[str]], Inputs]:
    return lambda model, asked: sound(model, asked) | _read_text(model, asked)


def _wave(model: nn.Module, asked: set[str]) -> Inputs:
    return {"input_values": _noise(BATCH, 3200)}


def _wave_by_channel(model: nn.Module, asked: set[str]) -> Inputs:
    return {"input_values": _noise(BATCH, 1, 3200)}


def _spectrum_as_values(model: nn.Module, asked: set[str]) -> Inputs:
    return {"input_values": _noise(BATCH, getattr(model.config, "max_length", 64), _bins(model))}


def _series(model: nn.Module, asked: set[str]) -> Inputs:
    config = model.config
    return {"past_values": _noise(BATCH, config.context_length, getattr(config, "num_input_channels", 1))}


def _flat_series(model: nn.Module, asked: set[str]) -> Inputs:
    return {"past_values": _noise(BATCH, model.config.context_length)}


def _conditioned_text(model: nn.Module, asked: set[str]) -> Inputs:
    return {"inputs_embeds": _noise(BATCH, LENGTH, model.config.hidden_size)}


RECIPES: tuple[tuple[str, Callable[[nn.Module, set[str]], Inputs | None]], ...] = (
    ("image and text", _patches_and_text),
    ("image and text", _sized_images_and_text),
    ("image and text", _tiled_images_and_text),
    ("image and text", _several_images_and_text),
    ("image and text", _image_and_text),
    ("image and text", _typed_image_and_text),
    ("sound and text", _with_text(_masked_spectrum)),
    ("sound and text", _with_text(_masked_spectrum_by_time)),
    ("sound and text", _with_text(_spectrum)),
    ("sound and text", _with_text(_spectrum_by_time)),
    ("sound and text", _with_text(_wave)),
    ("sound", _masked_spectrum),
    ("sound", _masked_spectrum_by_time),
    ("sound", _spectrum),
    ("sound", _spectrum_by_time),
    ("text", _read_text),
    ("image", _bare_patches),
    ("image", _pixel_patches),
    ("image", _image),
    ("image", _large_image),
    ("video", _video),
    ("sound", _spectrum_as_values),
    ("sound", _wave),
    ("sound", _wave_by_channel),
    ("series", _series),
    ("series", _flat_series),
    ("embeddings", _conditioned_text),
)
