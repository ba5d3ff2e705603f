"""Softmax must disperse: the same bounded logits, ever more of them, under four normalisers, beside the theory.

    python examples/dispersion.py [figure.png]

One row attends to n keys. Their logits are uniform in [0, δ] with one key at the top, δ = 5.69: the mean spread that
arXiv 2410.01104 measured over the heads of Gemma 2B. Every line of the table is exact, in float64.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import strop
from strop.cli import output
from strop.report import figures
from strop.report.tables import Column, Table

SPREAD = 5.69
SIZES = [2**i for i in range(4, 15)]
NORMALISERS = {
    "softmax": strop.normalisers.Softmax(),
    "adaptive": strop.normalisers.AdaptiveTemperature(),
    "SSMax": strop.normalisers.SSMax(),
    "1.5-entmax": strop.normalisers.Entmax15(),
}


def row_of(n: int) -> torch.Tensor:
    """n logits in [0, δ], the first at the top; the smaller rows are the beginnings of the larger ones."""
    draw = torch.Generator().manual_seed(0)
    logits = SPREAD * torch.rand(SIZES[-1], generator=draw, dtype=torch.float64)[:n]
    logits[0], logits[1] = SPREAD, 0.0
    return logits[None]


def measure() -> list[dict[str, float]]:
    """One record for each n: Lemma 2.1's bounds, and what each normaliser makes of the row."""
    records = []
    for n in SIZES:
        low, _ = strop.sharpness.dispersion_bounds(n, SPREAD)
        record = {"n": n, "least": low, "most": strop.sharpness.best_top_weight(n, SPREAD)}
        for name, normaliser in NORMALISERS.items():
            weights = normaliser.weights(row_of(n)).detach()
            entropy = strop.sharpness.entropy_of(weights).item()
            record |= {f"{name} top": weights.max().item(), f"{name} entropy": entropy}
            record |= {f"{name} keys": torch.tensor(entropy).exp().item()}
        records.append(record)
    return records


def draw(records: list[dict[str, float]], path: Path) -> None:
    """Top weight and effective keys against n, with the theory's best case shaded."""
    with figures.style():
        figure, (left, right) = figures.new(8.6, 3.4, columns=2)
        n = [record["n"] for record in records]
        most = [record["most"] for record in records]
        left.fill_between(n, [r["least"] for r in records], most, color=figures.colour(7), alpha=0.12, lw=0)
        left.plot(n, most, color=figures.colour(7), ls=":", label="most that softmax can give")
        for i, name in enumerate(NORMALISERS):
            left.plot(n, [r[f"{name} top"] for r in records], "o-", color=figures.colour(i), label=name)
            right.plot(n, [r[f"{name} keys"] for r in records], "o-", color=figures.colour(i), label=name)
        for axes, title in ((left, "weight of the top key"), (right, "effective keys, $e^H$")):
            figures.sizes_axis(axes, SIZES, "keys, n")
            axes.set_yscale("log")
            axes.set_title(title)
        left.legend()
        figures.png(figure, path)


def main() -> None:
    """Print the table and write the figure."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "out/dispersion.png")
    records = measure()
    bounds = [Column("n", format=lambda n: f"{n:,}"), Column("least", "bounds: least"), Column("most", "most")]
    for kind, title in (
        ("top", "Weight of the top key"),
        ("entropy", "Entropy, nats"),
        ("keys", "Effective keys, exp(H)"),
    ):
        columns = [Column(f"{name} {kind}", name) for name in NORMALISERS]
        shown = bounds if kind == "top" else bounds[:1]
        output.show(Table.of(records, [*shown, *columns], f"{title}, logits of spread δ = {SPREAD}"))
    draw(records, path)
    output.say(
        f"No softmax row with this spread can put half its weight on one key past n = {strop.horizon(SPREAD):,.0f}."
    )
    output.say(f"Figure: {path}")


if __name__ == "__main__":
    main()
