"""What softmax can and cannot do as the number of keys grows (arXiv 2410.01104).

With n logits of spread δ = max e − min e and temperature θ = 1/β:

    Lemma 2.1         (1/n)·exp(−δ/θ) ≤ α_k ≤ (1/n)·exp(δ/θ)          for every weight α_k       `dispersion_bounds`
    tight best case   α_max ≤ 1 / (1 + (n − 1)·exp(−δ/θ))            one key up, the rest down   `best_top_weight`
    horizon           α_max ≥ p is possible only while n ≤ 1 + exp(δ/θ)·(1 − p)/p                `horizon`
    Proposition 3.1   δ ≤ 2·scale·σ_max(Q)·σ_max(K)·‖y‖·max_i‖x_i‖   for e_i = scale·⟨Qy, Kx_i⟩  `spread_bound`
    Proposition 3.2   dH/dβ = −β·Var_p(e) ≤ 0, p = softmax(β e)      sharpening lowers entropy   `entropy_slope`

Lemma 2.1 and the propositions are the paper's; the tight best case, the horizon and the value of dH/dβ are derived
from them here. Every function takes numbers or tensors that broadcast, computes in float64, and returns a number when
given numbers only.
"""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch import Tensor

from strop._checks import require

Real: TypeAlias = float | Tensor


def dispersion_bounds(n: Real, spread: Real, theta: Real = 1.0) -> tuple[Real, Real]:
    """Lemma 2.1: the least and the most that any weight of a row of n keys can be. The upper bound may exceed 1."""
    count, delta = _positive("n", n), _tempered_spread(spread, theta)
    given = (n, spread, theta)
    return _like(given, (-delta).exp() / count), _like(given, delta.exp() / count)


def best_top_weight(n: Real, spread: Real, theta: Real = 1.0) -> Real:
    """Return the largest weight that any row of n keys with this spread can give to one key."""
    count, delta = _positive("n", n), _tempered_spread(spread, theta)
    return _like((n, spread, theta), 1.0 / (1.0 + (count - 1.0) * (-delta).exp()))


def horizon(spread: Real, top_weight: Real = 0.5, theta: Real = 1.0) -> Real:
    """Return the largest number of keys at which some key can still hold `top_weight`; inf past float64."""
    share = _number("top_weight", top_weight)
    require(bool(((share > 0) & (share <= 1)).all()), "top_weight must lie in (0, 1]", top_weight)
    reach = _tempered_spread(spread, theta).exp() * (1.0 - share) / share
    return _like((spread, top_weight, theta), (1.0 + reach).floor())


def spread_bound(q_weight: Tensor, k_weight: Tensor, query_norm: Real, key_norm: Real, scale: float = 1.0) -> Real:
    """Proposition 3.1: how far apart logits can be, from weights [*heads, d, d_in] and the norms of their inputs."""
    sigma_q = torch.linalg.matrix_norm(q_weight.double(), ord=2)
    sigma_k = torch.linalg.matrix_norm(k_weight.double(), ord=2)
    bound = 2.0 * scale * sigma_q * sigma_k * _number("query_norm", query_norm) * _number("key_norm", key_norm)
    return bound if bound.ndim else float(bound)


def entropy_slope(beta: Real, variance: Real) -> Real:
    """Proposition 3.2: dH/dβ from the variance of the logits under softmax(β e)."""
    return _like((beta, variance), -_number("beta", beta) * _number("variance", variance))


def _tempered_spread(spread: Real, theta: Real) -> Tensor:
    delta = _number("spread", spread)
    require(bool((delta >= 0).all()), "spread must be at least 0", spread)
    return delta / _positive("theta", theta)


def _positive(name: str, value: Real) -> Tensor:
    number = _number(name, value)
    require(bool((number > 0).all()), f"{name} must be greater than 0", value)
    return number


def _number(name: str, value: Real) -> Tensor:
    number = torch.as_tensor(value, dtype=torch.float64)
    require(not bool(number.isnan().any()), f"{name} must not be NaN", value)
    return number


def _like(given: tuple[Real, ...], result: Tensor) -> Real:
    return result if any(isinstance(value, Tensor) for value in given) else float(result)
