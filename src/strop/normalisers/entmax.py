"""The entmax family: sparse weights from a threshold (arXiv 1602.02068, 1905.05702). `Entmax` has the formula.

The threshold τ is found exactly by sorting for α = 2 and 1.5. For any other α it is found by bisection, since the sum
of the weights falls as τ rises, between (α − 1)·max e − 1 and (α − 1)·max e − n^(1−α).

Gradients, with s_j = w_j^(2−α) on the support and 0 elsewhere, and a_j = w_j/(α−1)² − w_j log w_j/(α−1):

    dw/de = diag(s) − s sᵀ/Σs          dw/dα = a − s·Σa/Σs

Hidden keys and rows that see nothing have weight 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from strop._checks import require_number
from strop._types import Keep, Logits, Weights
from strop.normalisers.base import Normaliser, per_head
from strop.normalisers.fusion import Threshold
from strop.sharpness import upcast


class Entmax(Normaliser):
    """α-entmax for any α > 1: sparse weights, with α as a setting or learned.

    The weights maximise ⟨w, e⟩ + (1/(α(α−1)))·Σ(w_j − w_j^α) on the simplex. They are

        w_j = [(α − 1)·e_j − τ]_+^(1/(α−1)),     with τ such that Σ w_j = 1

    From arXiv 1905.05702. α → 1 is softmax, 1.5 lies halfway to sparsemax, which is α = 2. Every key further than
    1/(α−1) below the top has weight exactly 0, however many there are.

    Train with it where few keys matter. For a fixed α of 1.5 or 2 take `Entmax15` or `Sparsemax`, which are exact and
    faster; this one bisects.

    Args:
        alpha: α, or where it starts if it is learned. Larger is sparser.
        learnable: Learn α. It stays above 1.
        heads: Number of query heads, to have one α for each. None: one for all.

    Examples:
        >>> import torch
        >>> from strop.normalisers import Entmax
        >>> logits = torch.tensor([[2.0, 1.0, 0.0]])
        >>> for alpha in (1.01, 1.3, 2.0):  # from softmax to sparsemax
        ...     print(Entmax(alpha).weights(logits))
        tensor([[0.6684, 0.2437, 0.0879]])
        tensor([[0.7688, 0.2078, 0.0234]])
        tensor([[1., 0., 0.]])
    """

    name = "entmax"

    def __init__(self, alpha: float = 1.5, learnable: bool = False, heads: int | None = None) -> None:
        super().__init__()
        require_number("alpha", alpha, above=1)
        self.heads = heads
        raw = per_head(heads, 0.0).data + torch.tensor(alpha - 1.0).log()  # α = 1 + exp(raw) stays above 1
        self.raw_alpha = nn.Parameter(raw, requires_grad=learnable)

    @property
    def alpha(self) -> Tensor:
        """The present α, a scalar or [heads, 1]."""
        return 1.0 + self.raw_alpha.exp()

    def weights(self, logits: Logits, keep: Keep | None = None) -> Weights:
        """Weights by bisection."""
        logits = upcast(logits)
        return _entmax(logits, keep, self.alpha.to(logits.dtype)[..., None], "bisect")

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        raw = self.raw_alpha
        if raw.requires_grad or raw.is_meta or type(raw) is not nn.Parameter:  # learned, or without a number to show
            return f"learnable={raw.requires_grad}, heads={self.heads}"
        return f"alpha={float(self.alpha.mean()):g}"


class Sparsemax(Normaliser):
    """The point of the simplex that lies nearest to the logits: entmax with α = 2.

        w_j = [e_j − τ]_+,     with τ such that Σ w_j = 1

    From arXiv 1602.02068, exact by sorting. It learns nothing. Every key more than 1 below the top has weight 0 and
    receives no gradient. Train with it where few keys matter; `Entmax15` is gentler.

    Examples:
        >>> import torch
        >>> from strop.normalisers import Sparsemax
        >>> Sparsemax().weights(torch.tensor([[2.0, 1.5, 0.0]]))
        tensor([[0.7500, 0.2500, 0.0000]])
    """

    name = "sparsemax"

    def fusion(self) -> Threshold:
        """α = 2."""
        return Threshold(2.0)

    def weights(self, logits: Logits, keep: Keep | None = None) -> Weights:
        """Weights by sorting."""
        return _entmax(upcast(logits), keep, torch.tensor(2.0, device=logits.device), "sparsemax")


class Entmax15(Normaliser):
    """Sparse weights halfway between softmax and sparsemax: entmax with α = 1.5.

        w_j = [e_j/2 − τ]_+²,     with τ such that Σ w_j = 1

    From arXiv 1905.05702, exact by sorting. It learns nothing. Every key more than 2 below the top has weight 0:
    however many of them there are, they take nothing from the others. Train with it where few keys matter; where every
    key matters, as in an average over thousands, it may lose some of them.

    Examples:
        >>> import torch
        >>> from strop.normalisers import Entmax15
        >>> Entmax15().weights(torch.tensor([[2.0, 1.0, 0.0, -1.0]]))
        tensor([[0.8307, 0.1693, 0.0000, 0.0000]])
    """

    name = "entmax15"

    def fusion(self) -> Threshold:
        """α = 1.5."""
        return Threshold(1.5)

    def weights(self, logits: Logits, keep: Keep | None = None) -> Weights:
        """Weights by sorting."""
        return _entmax(upcast(logits), keep, torch.tensor(1.5, device=logits.device), "entmax15")


def _entmax(logits: Logits, keep: Keep | None, alpha: Tensor, method: str) -> Weights:
    if logits.shape[-1] == 0:
        return torch.zeros_like(logits)
    apply: Callable[[Tensor, Tensor, str], Tensor] = _Entmax.apply
    if keep is None:
        return apply(logits, alpha.to(logits.dtype), method)
    return torch.where(keep, apply(torch.where(keep, logits, -torch.inf), alpha.to(logits.dtype), method), 0.0)


class _Entmax(torch.autograd.Function):
    """Weights of whole rows and their exact gradients; hidden keys arrive as −inf."""

    generate_vmap_rule = True

    @staticmethod
    def forward(logits: Tensor, alpha: Tensor, method: str) -> Tensor:
        reach = logits - logits.amax(-1, keepdim=True)
        scaled = ((alpha - 1.0) * reach).clamp(
            min=-1.0
        )  # what lies a whole unit below the top has weight 0, however far
        if method == "bisect":
            return _by_bisection(scaled, 1.0 / (alpha - 1.0))
        if method == "sparsemax":
            return (scaled - _sparsemax_threshold(scaled)).clamp(min=0.0)
        return (scaled - _entmax15_threshold(scaled)).clamp(min=0.0).square()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, str], output: Tensor) -> None:
        ctx.save_for_backward(output, inputs[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None, None]:
        weights, alpha = ctx.saved_tensors
        support = weights > 0
        safe = torch.where(support, weights, 1.0)
        slope = torch.where(support, safe.pow(2.0 - alpha), 0.0)
        total = slope.sum(-1, keepdim=True)
        balanced = grad - (slope * grad).sum(-1, keepdim=True) / torch.where(total > 0, total, 1.0)
        grad_alpha = None
        if ctx.needs_input_grad[1]:
            change = torch.where(support, safe / (alpha - 1.0).square() - safe * safe.log() / (alpha - 1.0), 0.0)
            grad_alpha = (balanced * change).sum(-1, keepdim=True).sum_to_size(alpha.shape)
        return slope * balanced, grad_alpha, None


def _by_bisection(scaled: Tensor, power: Tensor) -> Tensor:
    low = torch.full_like(scaled[..., :1], -1.0)
    width = torch.ones_like(low)
    for _ in range(60 if scaled.dtype == torch.float64 else 30):
        width = width / 2
        middle = low + width
        enough = (scaled - middle).clamp(min=0.0).pow(power).sum(-1, keepdim=True) >= 1.0
        low = torch.where(enough, middle, low)
    weights = (scaled - low).clamp(min=0.0).pow(power)
    return weights / weights.sum(-1, keepdim=True)


def _sparsemax_threshold(scaled: Tensor) -> Tensor:
    ordered = scaled.sort(-1, descending=True).values
    rank = torch.arange(1, scaled.shape[-1] + 1, device=scaled.device, dtype=scaled.dtype)
    thresholds = (ordered.cumsum(-1) - 1.0) / rank
    return _at_last_of_support(thresholds, ordered > thresholds)


def _entmax15_threshold(scaled: Tensor) -> Tensor:
    ordered = scaled.sort(-1, descending=True).values
    rank = torch.arange(1, scaled.shape[-1] + 1, device=scaled.device, dtype=scaled.dtype)
    mean = ordered.cumsum(-1) / rank
    variance = ordered.square().cumsum(-1) / rank - mean.square()
    thresholds = mean - ((1.0 - rank * variance) / rank).clamp(min=0.0).sqrt()
    return _at_last_of_support(thresholds, thresholds <= ordered)


def _at_last_of_support(thresholds: Tensor, inside: Tensor) -> Tensor:
    size = inside.sum(-1, keepdim=True).clamp(min=1)
    return thresholds.gather(-1, size - 1)
