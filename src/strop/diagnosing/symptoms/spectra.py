"""Spectra of attention's Laplacian (“Spectral Features of Attention Maps”, arXiv 2502.17598).

Attention A of a text of T tokens is a graph, with the Laplacian L = D − A and the degrees

    d_i = Σ_u A_ui / (T − i)        what token i gets from the rows that can see it, on average

A causal A is lower triangular, and so is L: its eigenvalues are its diagonal, λ_i = d_i − A_ii. So the diagonal and the
degrees are all that is needed, in memory that grows with n. The number is the largest λ. For attention that is not
causal the diagonal is not the spectrum, and it is NaN.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from strop.diagnosing.symptoms.symptom import TextSymptom
from strop.kernels import Request
from strop.kernels.dense import form_logits
from strop.sharpness import upcast

BLOCK = 256
"""Rows whose weights exist at a time."""


class LargestEigenvalue(TextSymptom):
    """The largest eigenvalue of the Laplacian."""

    name = "laplacian"
    title = "Laplacian, largest eigenvalue"
    paper = "Hallucination Detection in LLMs Using Spectral Features of Attention Maps (arXiv 2502.17598)"
    sentence = "Largest eigenvalue of attention's Laplacian: what the most looked-at token gets, less what it keeps."

    def measure(self, request: Request) -> Tensor:
        """The largest of λ, by head, averaged over the batch."""
        return find_eigenvalues(request).amax(-1).mean(0)


def find_eigenvalues(request: Request) -> Tensor:
    """Return the eigenvalues [B, heads, n] in the order of the tokens; NaN where attention is not causal."""
    n = request.n_k
    summed, own = (upcast(request.query).new_zeros(*request.query.shape[:2], n) for _ in range(2))
    if request.n_q != n:
        return summed + math.nan
    for start in range(0, n, BLOCK):
        rows = torch.arange(start, min(n, start + BLOCK), device=summed.device)
        some = request.pick(rows)
        if _looks_ahead(some, rows):
            return summed + math.nan
        weights = _weights(some, start + len(rows))
        own[..., rows] = weights[..., rows].diagonal(dim1=-2, dim2=-1)
        summed[..., : weights.shape[-1]] += weights.sum(-2)
    return summed / torch.arange(n, 0, -1, device=summed.device) - own


def _looks_ahead(request: Request, rows: Tensor) -> bool:
    """Whether any of these rows sees a key after its own."""
    later = torch.arange(request.n_k, device=rows.device) > rows[:, None]
    keep = request.mask.keep
    return bool((later if keep is None else keep & later).any())


def _weights(request: Request, keys: int) -> Tensor:
    """Weights [B, heads, rows, keys] of a block of rows that see none but the first keys."""
    mask, key = request.mask.keys(slice(keys)), upcast(request.key[..., :keys, :])
    groups = upcast(request.query).unflatten(1, (key.shape[1], -1)).flatten(2, 3)  # heads that share a key head
    logits: Tensor = form_logits(groups, key, request.scale, request.softcap, None)
    logits = logits.unflatten(2, (-1, request.n_q)).flatten(1, 2)
    logits = logits if mask.bias is None else logits + mask.bias.to(logits)
    logits = logits if mask.keep is None else logits.masked_fill_(~mask.keep, -math.inf)
    weights = logits.softmax(-1).nan_to_num_(0.0)  # rows that see nothing
    if request.sink is None:
        return weights
    return weights * (logits.logsumexp(-1, keepdim=True) - request.sink[:, None, None].to(logits)).sigmoid()


symptoms = (LargestEigenvalue(),)
