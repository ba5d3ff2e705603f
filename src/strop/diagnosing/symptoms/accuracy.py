"""An estimate of accuracy without answers (MANO, arXiv 2405.18979): the norm of the normalised logits.

For N rows of logits over K tokens, normalised to σ:

    score = (Σ |σ|⁴ / (N·K))^{1/4}

σ is softmax where the logits are calibrated well enough, −mean log softmax > 5; else 1 + q + q²/2, made to sum to 1. A
vocabulary of more than 148 tokens is always beyond 5. The score is monotone in how concentrated the outputs are: it
estimates accuracy after a comparison with data whose accuracy is known, here by its rank among tasks and sizes.
"""

from __future__ import annotations

from torch import Tensor

from strop.diagnosing.asking import Said
from strop.diagnosing.symptoms.symptom import AnswerSymptom

POWER = 4
LIMIT = 5.0


class MatrixNorm(AnswerSymptom):
    """The score of MANO; `measure` gives the mean of |σ|⁴ in each row."""

    name = "mano"
    title = "MANO score"
    paper = "MANO: Exploiting Matrix Norm for Unsupervised Accuracy Estimation (arXiv 2405.18979)"
    sentence = "Norm of the model's normalised outputs: it falls as answers become less sure, without the answers."

    def measure(self, said: Said) -> Tensor:
        """The mean of |σ|⁴ over the vocabulary."""
        return normalise(said.logits).abs().pow(POWER).mean(-1)

    def join(self, rows: Tensor) -> float:
        """The fourth root of the mean."""
        return float(rows.double().mean() ** (1 / POWER))


def normalise(logits: Tensor) -> Tensor:
    """Return rows that sum to 1, by softmax or by its expansion where it would be overconfident."""
    sure = logits.log_softmax(-1)
    if float(-sure.mean()) > LIMIT:
        return sure.exp()
    parts = 1 + logits + logits.square() / 2
    return parts / parts.sum(-1, keepdim=True)


symptoms = (MatrixNorm(),)
