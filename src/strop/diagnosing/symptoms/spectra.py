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
    n, heads = request.n_k, request.n_heads
    query, key = upcast(request.query), upcast(request.key).repeat_interleave(heads // request.key.shape[1], 1)
    summed, own = (query.new_zeros(len(query), heads, n) for _ in range(2))
    if request.n_q != n:
        return summed + math.nan
    causal = True
    for start in range(0, n, BLOCK):
        rows = torch.arange(start, min(n, start + BLOCK), device=query.device)
        weights = _weights(request.pick(rows), query[:, :, rows], key)
        own[..., rows] = weights[..., rows].diagonal(dim1=-2, dim2=-1)
        summed += weights.sum(-2)
        causal = causal and not bool(weights.triu(start + 1).any())
    seen = torch.arange(n, 0, -1, device=query.device)
    return summed / seen - own if causal else summed + math.nan


def _weights(request: Request, query: Tensor, key: Tensor) -> Tensor:
    """Weights [B, heads, rows, n] of a block of rows."""
    keep = request.mask.dense(request.n_q, request.n_k, query.device)
    logits: Tensor = form_logits(query, key, request.scale, request.softcap, request.mask.bias)
    logits = logits if keep is None else logits.masked_fill(~keep, -math.inf)
    total = logits.logsumexp(-1, keepdim=True)
    if request.sink is not None:
        total = torch.logaddexp(total, request.sink[:, None, None].to(total))
    return (logits - total).exp().nan_to_num(0.0)


symptoms = (LargestEigenvalue(),)
