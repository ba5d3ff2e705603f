"""What the max-retrieval study depends on. Plain values: nothing here loads torch until a study is made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from strop._checks import require, require_distinct
from strop.errors import ArgumentError

if TYPE_CHECKING:
    from strop.studies.retrieval.settings import Setting
    from strop.studies.retrieval.training.trainer import TrainConfig

STUDY_FOLDER = "reproduce"
"""The folder of the study under a folder of runs."""
PAPER_SIZES = tuple(16 * 2**j for j in range(11))


@dataclass(frozen=True)
class Study:
    """Everything the study's numbers depend on.

    Args:
        settings: ways to train, keys of `SETTINGS`.
        seeds: models of each setting.
        sizes: items of the sets on which models are evaluated.
        sets: sets of each size, for each model.
        survey_sets: sets of training sizes on which rules are fitted, for each model.
        steps: training steps, in place of every setting's own.
        train_sizes: least and largest set in training, in place of every setting's own.
        classes: classes of the task, in place of ten.
        bundled: take the trained models of a clone of the repository instead of training them.

    Examples:
        >>> from strop.studies.retrieval import Study
        >>> study = Study(settings=("decay",), seeds=2, sizes=(16, 256))
        >>> study.command
        'strop reproduce --settings decay --seeds 2 --sizes 16,256'
        >>> study.train_config("decay", seed=1).steps
        10000
    """

    settings: tuple[str, ...] = ("nearest", "decay")
    seeds: int = 10
    sizes: tuple[int, ...] = PAPER_SIZES
    sets: int = 2048
    survey_sets: int = 98_304
    steps: int | None = None
    train_sizes: tuple[int, int] | None = None
    classes: int | None = None
    bundled: bool = False

    @classmethod
    def quick(cls, **changes: Any) -> Study:
        """The study in minutes: the trained models of a clone, and fewer sets; `changes` are fields of your own."""
        return cls(**{"sets": 128, "survey_sets": 12_288, "bundled": True, **changes})

    def __post_init__(self) -> None:
        for name in ("seeds", "sets", "survey_sets"):
            require(getattr(self, name) >= 1, f"{name} must be at least 1", getattr(self, name), "Use the default")
        sized = bool(self.sizes) and min(self.sizes) >= 1
        require(sized, "sizes must hold sizes of at least 1", self.sizes, "Use 16,32,64")
        require_distinct("sizes", self.sizes)
        self._check_settings()
        pair = self.train_sizes is None or len(self.train_sizes) == 2
        require(pair, "train_sizes must be two sizes", self.train_sizes, "For example 5,16")
        if self.bundled and (self.steps, self.train_sizes, self.classes) != (None, None, None):
            raise ArgumentError("steps, train_sizes and classes must be left out with bundled models.")

    def _check_settings(self) -> None:
        known = _known_settings()
        unknown = [name for name in self.settings if name not in known]
        got = ", ".join(unknown) if self.settings else "none"
        require(bool(self.settings) and not unknown, "settings must be known", got, f"Known: {', '.join(known)}")
        require_distinct("settings", self.settings)

    @property
    def trained_size(self) -> int:
        """The largest size in training."""
        return self.train_config(self.settings[0], 0).sizes[1]

    @property
    def command(self) -> str:
        """The command that makes this study."""
        usual, flags = (Study.quick(), " --quick") if self.bundled else (Study(), "")
        for name in ("settings", "seeds", "sets", "sizes", "steps", "train_sizes", "classes"):
            value = getattr(self, name)
            if value != getattr(usual, name):
                text = ",".join(map(str, value)) if isinstance(value, tuple) else value
                flags += f" --{name.replace('_', '-')} {text}"
        return f"strop {STUDY_FOLDER}{flags}"

    def train_config(self, setting: str, seed: int) -> TrainConfig:
        """The training run of one seed of a setting."""
        config = replace(_known_settings()[setting].train, seed=seed)
        if self.steps is not None:
            config = replace(config, steps=self.steps, average_last=min(config.average_last, self.steps))
        if self.train_sizes is not None:
            config = replace(config, sizes=self.train_sizes)
        if self.classes is not None:
            task = replace(config.task, classes=self.classes, features=self.classes + 1)
            model = replace(config.model, features=task.features, classes=task.classes)
            config = replace(config, task=task, model=model)
        return config


def _known_settings() -> dict[str, Setting]:
    from strop.studies.retrieval.settings import SETTINGS

    return SETTINGS
