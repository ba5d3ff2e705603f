"""One calibration of a model that is open: settings → an edge; an interrupted one goes on after its last whole step.

A run's folder is named by an address of everything that a calibration depends on (recipe, settings, data, weights,
dtype) and holds its state until the edge is made, then a record of every head.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from strop._progress import show_progress
from strop._version import __version__
from strop.calibration.data import Data
from strop.calibration.descent import RULE, descend
from strop.calibration.hold import hold_entropy
from strop.calibration.numbers import Progress
from strop.calibration.settings import Settings
from strop.edges.edge import FILE, Edge
from strop.patching.identity import dtype_of, fingerprint
from strop.pretrained.load import Opened
from strop.ranks import ranks_here
from strop.records import Run, short_id
from strop.tasks.answers import Reader


@dataclass(frozen=True)
class EdgeMaker:
    """All that edges of one model and recipe have in common. The model must be frozen.

    `checksum` is that of the data, `runs` the folder in which unfinished calibrations are kept, or None.
    """

    opened: Opened
    reader: Reader
    data: Data
    checksum: str
    runs: str | Path | None
    progress: bool | None

    def make(self, settings: Settings, title: str = "calibrating", keep: bool = False) -> Edge:
        """Make the edge of some settings; with `keep` it stays in its run's folder and is not made again."""
        ranks, depends = ranks_here(), self._depends(settings) | ({"strop": __version__} if keep else {})
        ranks.agree("model, data and settings", short_id(depends))
        run = None if self.runs is None else Run.of(depends, "calibrate", self.runs)
        if keep and run is not None and ranks.tell(run.finished and (run.folder / FILE).exists()):
            return Edge.load(run.folder / FILE)
        state = None if run is None else run.folder / "state.safetensors"
        with run.work_on(depends) if run is not None and ranks.leads else nullcontext():
            edge = self._describe(self._find_edge(settings, state, title))
        if run is not None and state is not None and ranks.leads:
            if keep:
                edge.save(run.folder / FILE)
            run.finish(depends, edge.heads())
            state.unlink(missing_ok=True)
        return edge

    def _find_edge(self, settings: Settings, state: Path | None, title: str) -> Edge:
        model, reader, data = self.opened.model, self.reader, self.data
        if settings.form == "hold":
            with show_progress("measuring entropies", None, self.progress):
                return hold_entropy(model, data.texts(reader), data.recipe.trusted)
        with show_progress("reading the data", None, self.progress) as bar:

            def begun(done: int, of: int) -> None:
                bar.update(completed=done, total=of, text="before the first step")

            def tick(at: Progress) -> None:
                shown = f"task {at.valid_task:.3f}, drift {at.valid_drift:.4f}, harm {at.valid_harm:.3f}"
                bar.update(completed=at.step, total=settings.steps, text=f"{title}: {shown}")

            return descend(
                model, data.batches(model, reader, settings.steps), data.prose(reader, "train"),
                data.validation(model, reader), data.prose(reader, "validation"), settings, tick, state,
                *data.guard(reader), begun,
            )  # fmt: skip

    def _describe(self, edge: Edge) -> Edge:
        """The edge with what was learned from."""
        prompts = self.data.prompts
        about = {"checksum": self.checksum, "prompts": None if prompts is None else prompts.checksum}
        recipe = vars(self.data.recipe) | about
        return replace(edge, made={**edge.made, "model": self.opened.name, "recipe": recipe})

    def _depends(self, settings: Settings) -> dict[str, object]:
        """Everything that a calibration depends on."""
        model = self.opened.model
        known = {"recipe": self.data.recipe, "settings": settings, "data": self.checksum, "rule": RULE}
        return known | {"model": fingerprint(model), "dtype": dtype_of(model)}
