"""`probe`: run a model on texts of growing length and measure every head.

A forward pass for each length gives one record for each layer and head (patching/measure.py says what is in it);
summary.py turns them into slopes, horizons and classes. Records of finished lengths are kept in the run's folder, so
an interrupted probe goes on where it stopped; the folder's name is the address of the settings, the text's checksum
and a digest of the model's weights included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strop.records import Record, Run, whole

if TYPE_CHECKING:
    from torch import nn

    from strop.pretrained.load import Pretrained
    from strop.pretrained.text import Text
    from strop.report.page import Page
    from strop.report.tables import Table


@dataclass(frozen=True)
class ProbeConfig:
    """Everything that the numbers of a probe depend on, the machine apart.

    Examples:
        >>> import strop
        >>> strop.probe(model, tokenizer, lengths=(16, 32), runs=None).config.lengths
        (16, 32)
    """

    model: str
    lengths: tuple[int, ...]
    text: str
    text_sha256: str
    weights: str
    samples: int = 1
    dtype: str = "float32"


@dataclass(frozen=True, repr=False)
class ProbeResult:
    """What a probe found.

    Attributes:
        config: Which model, text and lengths.
        records: A record for each length, layer and head.
        heads: A record for each head: its class, slope, horizon and numbers at the longest length.
        summary: One sentence that says how many heads go blunt.
        advice: What to do next, and the command for it.
        folder: Where the records are kept; None where nothing is kept.

    Examples:
        >>> import strop
        >>> found = strop.probe(model, tokenizer, lengths=(16, 32), runs=None)
        >>> found.table(count=2).caption
        'The 2 heads that blunt fastest'
    """

    config: ProbeConfig
    records: list[Record]
    heads: list[Record]
    summary: str
    advice: tuple[str, str]
    folder: Path | None = None

    def __repr__(self) -> str:
        lengths = ", ".join(f"{n:,}" for n in self.config.lengths)
        return f"<ProbeResult of {self.config.model} at {lengths} tokens: {self.summary}>"

    @property
    def verdict(self) -> str:
        """Whether bluntness is a problem for the model, in one sentence."""
        from strop.probing.verdict import judge_bluntness

        return judge_bluntness(self.config.model, self.heads)

    def table(self, count: int = 12) -> Table:
        """Return the heads that blunt fastest as a table."""
        from strop.probing.report import tabulate_heads

        whole = tabulate_heads(self.heads)
        count = min(count, len(whole.rows))
        return type(whole)(whole.columns, whole.rows[:count], f"The {count} heads that blunt fastest")

    def page(self) -> Page:
        """Return the report as a page that can be written or put into another."""
        from strop.probing.report import make_probe_page

        shown: Record = {name: str(value) for name, value in vars(self.config).items() if name != "lengths"}
        lengths = ", ".join(str(n) for n in self.config.lengths)
        settings = {"model": shown.pop("model"), "lengths": lengths, **shown}
        return make_probe_page(self.heads, self.records, (self.verdict, self.summary, *self.advice), settings)

    def report(self, path: str | Path) -> Path:
        """Write the report, one HTML file that needs no network, and return where it is."""
        self.page().write(path)
        return Path(path)


def probe(
    model: nn.Module | str | Pretrained,
    tokenizer: Any = None,
    lengths: Sequence[int] | None = None,
    *,
    text: str | Path | Text | None = None,
    samples: int = 1,
    beyond: bool = False,
    device: str = "auto",
    dtype: str = "auto",
    runs: str | Path | None = "runs",
    name: str | None = None,
    progress: bool | None = None,
    partial: bool = False,
) -> ProbeResult:
    """Measure every head of a model on texts of growing length.

    Statistics are gathered inside the forward pass, in memory that grows with the length and not with its square.

    Args:
        model: Any model that `sharpened` can reach: a transformers model, with or without its language head. Or the
            name of one: smollm2, gemma3-270m, minilm, a folder, a hub name.
        tokenizer: Its tokeniser; left out for a model by name.
        lengths: Context lengths in tokens. None: doublings up to 2,048, or to the positions the model has.
        text: UTF-8 text to read, a path or a `strop.pretrained.text.Text`. None: the source of Python's own library.
        samples: Places in the text to begin at.
        beyond: Go beyond the positions that the model was built for, with a warning.
        device: Where to open a model by name: cpu, cuda, cuda:1, mps, …; auto is a card where there is one, spread is
            over all cards, then memory, then disk. A model that is no name stays where it is.
        dtype: Of a model by name: float32, bfloat16, float16; auto is float32 on the CPU, elsewhere as it was saved.
        runs: Folder in which records are kept, so that the same call goes on after an interruption. None: keep nothing.
        name: What to call the model. None: as it calls itself.
        progress: Show a bar. None: on a terminal and in a notebook.
        partial: Accept a model of which not all attention is reached (`strop.coverage`), with a warning.

    Returns:
        The result, with `.verdict`, `.summary`, `.heads`, `.records`, `.table()` and `.report(path)`.

    Examples:
        >>> import strop
        >>> found = strop.probe(model, tokenizer, lengths=(16, 32), runs=None)
        >>> len(found.heads), sorted(found.heads[0])[:4]
        (8, ['best_weight', 'blunt_from', 'class', 'effective_keys'])
    """
    from strop._progress import show_progress
    from strop.patching.block import check_reached
    from strop.patching.freeze import freeze
    from strop.patching.identity import digest_weights, dtype_of
    from strop.pretrained.load import open_model
    from strop.pretrained.text import cut_lengths, default_text, read_text

    source = default_text() if text is None else read_text(Path(text)) if isinstance(text, str | Path) else text
    opened = open_model(model, tokenizer, name, progress, device, dtype, head=False)
    check_reached(opened.model, partial)
    from strop.probing.measurement import check_lengths, default_lengths, measure_lengths, model_inputs
    from strop.probing.summary import summarise, write_sentence
    from strop.probing.verdict import advise, writes_answers

    checked = check_lengths(opened.model, default_lengths(opened.model) if lengths is None else lengths, beyond)
    inputs = model_inputs(opened.model, cut_lengths(opened.tokenizer, source, checked, samples))
    config = ProbeConfig(
        opened.name, checked, source.name, source.sha256, digest_weights(opened.model), samples, dtype_of(opened.model)
    )
    with freeze(opened.model), show_progress("probing", sum(checked), progress) as bar:
        if runs is None:
            folder, rows = None, measure_lengths(opened.model, inputs, done=lambda n, _: bar.advance(n))
        else:
            run = Run.of(config, "probe", root=runs)
            folder, rows = run.folder, _resume(opened.model, inputs, run, config, bar.advance)
    heads = summarise(rows)
    given = model if isinstance(model, str) else getattr(model, "name", None) if tokenizer is None else None
    advice = advise(given, writes_answers(opened.model))
    return ProbeResult(config, rows, heads, write_sentence(opened.name, heads), advice, folder)


def _resume(model: nn.Module, inputs: Any, run: Run, config: ProbeConfig, advance: Any) -> list[Record]:
    """Measure the lengths that the run does not hold yet, and keep all that is finished after each."""
    from strop import records
    from strop.probing.measurement import measure_lengths

    path = run.folder / "partial.jsonl"
    with run.claim():  # a second probe of the same waits, and finds everything done
        run.begin(config)
        kept = run.records() if run.finished else records.read(path) if path.exists() else []

        def keep(n: int, rows: list[Record]) -> None:
            kept.extend(rows)
            records.write(path, kept)
            advance(n)

        for n in {whole(record["n"]) for record in kept}:
            advance(n)
        rows = measure_lengths(model, inputs, tuple(kept), keep)
        if not run.finished:  # what was measured before keeps its provenance
            run.finish(config, rows)
            path.unlink(missing_ok=True)
    return rows
