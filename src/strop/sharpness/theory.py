"""What softmax can and cannot do as the number of keys grows (arXiv 2410.01104).

n is the number of logits e, δ = max e − min e their spread, and θ = 1/β the temperature. Lemma 2.1 and the propositions
are the paper's; the tight best case, the horizon and the value of dH/dβ are derived from them here. Every function
takes numbers or tensors that broadcast, computes in float64, and returns a number when given numbers only.
"""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch import Tensor

from strop._checks import require

Real: TypeAlias = float | Tensor


def dispersion_bounds(n: Real, spread: Real, theta: Real = 1.0) -> tuple[Real, Real]:
    """Return the least and the most that any weight of a row of n keys can be.

        (1/n)·exp(−δ/θ) ≤ α_k ≤ (1/n)·exp(δ/θ)        for every weight α_k

    Lemma 2.1 of arXiv 2410.01104: both bounds fall like 1/n, so bounded logits must disperse. The upper bound may
    exceed 1; `best_top_weight` is tighter.

    Args:
        n: Number of keys.
        spread: δ, the largest logit less the smallest.
        theta: Temperature. It divides the logits.

    Returns:
        The lower and the upper bound.

    Examples:
        >>> from strop.sharpness import dispersion_bounds
        >>> low, high = dispersion_bounds(n=1000, spread=1.0)
        >>> round(low, 6), round(high, 6)
        (0.000368, 0.002718)
    """
    count, delta = _positive("n", n), _tempered_spread(spread, theta)
    given = (n, spread, theta)
    return _like(given, (-delta).exp() / count), _like(given, delta.exp() / count)


def best_top_weight(n: Real, spread: Real, theta: Real = 1.0) -> Real:
    """Return the largest weight that any row of n keys with this spread can give to one key.

        α_max ≤ 1 / (1 + (n − 1)·exp(−δ/θ))        reached by one key up and the rest down

    Derived from Lemma 2.1 of arXiv 2410.01104; the bound is tight.

    Args:
        n: Number of keys.
        spread: δ, the largest logit less the smallest.
        theta: Temperature. It divides the logits.

    Examples:
        >>> from strop.sharpness import best_top_weight
        >>> for n in (10, 100, 1000, 10000):
        ...     print(n, round(best_top_weight(n, spread=5.7), 3))
        10 0.971
        100 0.751
        1000 0.23
        10000 0.029
    """
    count, delta = _positive("n", n), _tempered_spread(spread, theta)
    return _like((n, spread, theta), 1.0 / (1.0 + (count - 1.0) * (-delta).exp()))


def horizon(spread: Real, top_weight: Real = 0.5, theta: Real = 1.0) -> Real:
    """Return the largest number of keys at which some key can still hold `top_weight`.

        α_max ≥ p is possible only while n ≤ 1 + exp(δ/θ)·(1 − p)/p

    It is `best_top_weight` solved for n. Beyond the horizon no order of the logits helps: the spread or the temperature
    must change. inf where it is past float64.

    Args:
        spread: δ, the largest logit less the smallest.
        top_weight: p, the weight that the key is to hold, in (0, 1].
        theta: Temperature. It divides the logits.

    Examples:
        >>> from strop import horizon
        >>> horizon(spread=5.7)
        299.0
        >>> horizon(spread=5.7, theta=0.5)  # twice as sharp
        89322.0
    """
    share = _number("top_weight", top_weight)
    require(bool(((share > 0) & (share <= 1)).all()), "top_weight must lie in (0, 1]", top_weight)
    reach = _tempered_spread(spread, theta).exp() * (1.0 - share) / share
    return _like((spread, top_weight, theta), (1.0 + reach).floor())


def spread_bound(q_weight: Tensor, k_weight: Tensor, query_norm: Real, key_norm: Real, scale: float = 1.0) -> Real:
    """Return how far apart logits can be, from a head's weights and the norms of its inputs.

        δ ≤ 2·scale·σ_max(Q)·σ_max(K)·‖y‖·max_i‖x_i‖        for e_i = scale·⟨Qy, Kx_i⟩

    Proposition 3.1 of arXiv 2410.01104. With `horizon` it bounds the number of keys at which a head can still single
    one out. The spread that is seen is often far smaller: measure it with `RowStats` where you can.

    Args:
        q_weight: Q, [*heads, d, d_in].
        k_weight: K, [*heads, d, d_in].
        query_norm: ‖y‖, the norm of the input of the query.
        key_norm: max_i‖x_i‖, the largest norm of an input of a key.
        scale: What multiplies query·key, such as 1/√d.

    Examples:
        >>> import torch
        >>> from strop.sharpness import horizon, spread_bound
        >>> bound = spread_bound(torch.eye(4), torch.eye(4), query_norm=2.0, key_norm=3.0, scale=0.5)
        >>> round(bound, 3), horizon(bound)
        (6.0, 404.0)
    """
    sigma_q = torch.linalg.matrix_norm(q_weight.double(), ord=2)
    sigma_k = torch.linalg.matrix_norm(k_weight.double(), ord=2)
    bound = 2.0 * scale * sigma_q * sigma_k * _number("query_norm", query_norm) * _number("key_norm", key_norm)
    return bound if bound.ndim else float(bound)


def entropy_slope(beta: Real, variance: Real) -> Real:
    """Return dH/dβ, how fast sharpening lowers the entropy of a row.

        dH/dβ = −β·Var_p(e) ≤ 0,     p = softmax(β·e)

    Proposition 3.2 of arXiv 2410.01104 says that the entropy never rises with β; the value is derived here.

    Args:
        beta: Inverse temperature. It multiplies the logits.
        variance: Variance of the logits e under softmax(β·e).

    Examples:
        >>> import torch
        >>> from strop.sharpness import RowStats, entropy_slope
        >>> logits, beta = torch.tensor([2.0, 1.0, 0.0], dtype=torch.float64), 2.0
        >>> p = (beta * logits).softmax(-1)
        >>> round(entropy_slope(beta, (p @ logits**2 - (p @ logits) ** 2).item()), 3)
        -0.317
        >>> ends = [RowStats.of(b * logits).entropy.item() for b in (beta - 0.01, beta + 0.01)]
        >>> round((ends[1] - ends[0]) / 0.02, 3)  # the same by differences
        -0.317
    """
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
