"""Collapse of last-token representations (“Transformers need glasses!”, arXiv 2406.04267).

Two inputs that differ only in how often their last token is repeated end in states that come nearer and nearer. With
h_n the last hidden state of the model after n tokens, PREFIX different ones and the rest one and the same:

    distance = ‖h_n − h_{n−1}‖ / ‖h_n‖

A causal model reads the one as the beginning of the other, so one reading gives every n. Below 2⁻⁸ the two are the same
in bfloat16: no counting is possible from there.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from strop.diagnosing.symptoms.symptom import ModelSymptom
from strop.patching.placement import device_of

PLACE = 4
"""Which token is repeated: the one at 1/PLACE of the vocabulary. Special ones, hardly trained, stand at its ends."""

PREFIX = 8
"""Tokens before it, the next ones of the vocabulary."""

START = 16


class LastTokens(ModelSymptom):
    """Distance of the states after n and n − 1 equal tokens."""

    name = "collapse"
    title = "distance of nearly equal inputs"
    paper = "Transformers need glasses! (arXiv 2406.04267)"
    sentence = "Distance of the last states of two inputs that differ by one repeated token; 0.004 is bfloat16's limit."

    @torch.no_grad()
    def measure(self, model: nn.Module, longest: int) -> dict[int, float]:
        """Read it, and compare neighbours at doublings."""
        words: Any = model.get_input_embeddings()  # type: ignore[operator]
        ids = repeat_token(longest, words.num_embeddings // PLACE).to(device_of(model))
        out: Any = model(input_ids=ids, output_hidden_states=True, use_cache=False, logits_to_keep=1)
        return compare_neighbours(out.hidden_states[-1][0].float())


def repeat_token(length: int, token: int) -> Tensor:
    """Return a text [1, length] that says one token over and over, after a few others."""
    places = torch.arange(length)
    return torch.where(places < PREFIX, token + 1 + places, token)[None]


def compare_neighbours(states: Tensor) -> dict[int, float]:
    """Return n → distance of the states [n, d] after n and n − 1 tokens."""
    sizes = [START << i for i in range(32) if START << i <= len(states)]
    far = {n: states[n - 1] - states[n - 2] for n in sizes}
    return {n: float(step.norm() / states[n - 1].norm()) for n, step in far.items()}


symptoms = (LastTokens(),)
