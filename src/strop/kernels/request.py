"""One call of attention after the door has checked it: what every implementation is given."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from strop.kernels.mask import Mask
from strop.normalisers import Normaliser


class Request(NamedTuple):
    """Attend from query [*batch, n_q, d] to key [*batch, n_k, d] and value [*batch, n_k, d_v]; heads may be grouped."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Mask
    scale: float
    normaliser: Normaliser
    softcap: float | None = None
    dropout_p: float = 0.0
    return_stats: bool = False

    @property
    def n_q(self) -> int:
        """Query rows."""
        return self.query.shape[-2]

    @property
    def n_k(self) -> int:
        """Keys."""
        return self.key.shape[-2]

    @property
    def n_keys(self) -> Tensor:
        """Keys that each row may see."""
        return self.mask.n_keys(self.n_q, self.n_k, self.query.device)
