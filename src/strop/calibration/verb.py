"""`calibrate`: from a model and a task to an Edge, of one form (maker.py) or the best of several (ladder.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strop._checks import require
from strop._progress import show_progress
from strop.calibration.settings import GUARD, Recipe, Settings
from strop.edges.forms import AUTO
from strop.ranks import ranks_here

if TYPE_CHECKING:
    from torch import nn

    from strop.edges.edge import Edge
    from strop.pretrained.load import Pretrained
    from strop.tasks.prompts import Pairs, Prompts


def calibrate(
    model: nn.Module | str | Pretrained,
    tokenizer: Any = None,
    task: str | Path | Pairs = Recipe.task,
    *,
    form: str = Settings.form,
    rank: int = Settings.rank,
    target: float | None = None,
    outputs: bool = Settings.outputs,
    sizes: tuple[int, int] | None = None,
    phrasings: Sequence[str] | None = None,
    judged: Sequence[int] = Recipe.judged,
    echoes: int = Recipe.echoes,
    passages: int = Recipe.passages,
    trusted: int = Recipe.trusted,
    steps: int = Settings.steps,
    every: int = Settings.every,
    rate: float = Settings.rate,
    budget: float = Settings.budget,
    guard: Sequence[str] | None = None,
    harm: float = Settings.harm,
    guard_leads: bool = Recipe.guard_leads,
    recompute: bool = Settings.recompute,
    half: bool | None = None,
    sparsity: float = Settings.sparsity,
    windows: int = Recipe.windows,
    lengths: Sequence[int] = Recipe.lengths,
    prose: str | Path | None = None,
    beyond: bool = False,
    seed: int = Recipe.seed,
    device: str = "auto",
    dtype: str = "auto",
    runs: str | Path | None = "runs",
    name: str | None = None,
    progress: bool | None = None,
    partial: bool = False,
) -> Edge:
    """Learn what each head of a model should do differently, weights frozen.

    Calibration keeps the numbers with the lowest validation loss among those that stay within the budget of drift on
    ordinary prose and do no harm to other tasks. If nothing does, the edge does nothing.

    Args:
        model: A language model with its head; or the name of one: smollm2, gemma3-270m, a folder, a hub name.
        tokenizer: Its tokeniser; left out for a model by name.
        task: recall, lookup, lookup-similar, lookup-nouns, maximum, passkey, variables, chains, counting; text (needs
            no answers); a JSONL file of your own prompts, {"prompt": …, "answer": …} a line; or a list of pairs
            (prompt, answer).
        form: What is learned: a β for each head (constant), each layer (layer), growing with the length (log-n,
            power-n) or of the entropy (polynomial); or an edit of the query: a factor for each rotary pair (pairs), a
            low-rank change of its projection (query). One of each kind may be joined: pairs+log-n. From statistics
            alone: hold. Only outputs: none. Climb from constant to pairs to query of rank 1, 2, 4, 8 while validation
            gains: auto.
        rank: The rank of the form query.
        target: With the form auto, the validated loss in nats at which to climb no further. None: climb while it falls
            significantly.
        outputs: Scale each head's output too, as SEAL does.
        sizes: Smallest and largest size of the task. None: those at which the model begins to fail, found by doubling.
        phrasings: Phrasings of a built-in task to use. None: all but the held-out ones.
        judged: Sizes of the validation prompts. None: the largest size that is learned.
        echoes: Steps in a hundred that learn from an echo, a text that ends by saying again what it said, instead of
            from the task.
        passages: Passages of a built-in task that a step learns from.
        trusted: Length in tokens at which the model is known to be well, for hold and text.
        steps: Steps of the descent.
        every: Steps between validations.
        rate: First step, as a share of the budget's radius.
        budget: Drift allowed on prose, in nats a token.
        guard: Tasks on which to do no harm. None: the other ones of recall, maximum, passkey, variables, counting,
            chains.
        harm: What guarded answers may lose, in nats a token.
        guard_leads: Guard what right answers lead by, not how likely they are.
        recompute: Run layers twice instead of remembering them: less memory.
        half: Multiply by the frozen weights in bfloat16 meanwhile. None: where the processor has it (avx512_bf16) and
            the model is large enough for it to be faster.
        sparsity: L1 penalty that leaves heads alone.
        windows: Texts of prose of the shortest length, of longer ones fewer; a third as many to stop by.
        lengths: Tokens of prose to hold still.
        prose: UTF-8 text to hold still. None: Python's own documentation.
        beyond: Read prose of lengths beyond the positions that the model was built for, with a warning.
        seed: Seed of all randomness.
        device: Where to open a model by name: cpu, cuda, cuda:1, mps, …; auto is a card where there is one, spread is
            over all cards, then memory, then disk. A model that is no name stays where it is.
        dtype: Of a model by name: float32, bfloat16, float16; auto is float32 on the CPU, elsewhere as it was saved.
        runs: Folder in which an unfinished calibration is kept, so that the same call goes on. None: keep nothing.
        name: What to call the model. None: as it calls itself.
        progress: Show a bar. None: on a terminal and in a notebook.
        partial: Accept a model of which not all attention is reached (`strop.coverage`), with a warning.

    Returns:
        The edge. `edge.summary` says what was done; `strop.evaluate` says what it gains and costs.

    Examples:
        >>> import strop
        >>> edge = strop.calibrate(model, tokenizer, task="recall", sizes=(2, 4), steps=1, lengths=(32,), runs=None)
        >>> edge.form, edge.made["recipe"]["task"]
        ('query', 'recall')
    """
    require(target is None or form == AUTO, "target must be left out unless the form is auto", target)
    settings = Settings(
        "constant" if form == AUTO else form, outputs, steps, rate, budget, harm, sparsity, every,
        recompute=recompute, rank=rank, half=bool(half),
    )  # fmt: skip
    prompts = read_prompts(task)
    named = "jsonl" if prompts is not None else str(task)
    recipe = Recipe(
        task=named, sizes=sizes or Recipe.sizes, phrasings=tuple(phrasings or ()), seed=seed,
        data=None if prompts is None else prompts.name,
        prose=None if prose is None else str(prose), lengths=tuple(lengths), windows=windows, trusted=trusted,
        guard=_choose_guard(guard, named), guard_leads=guard_leads, judged=tuple(judged), echoes=echoes,
        passages=passages,
    )  # fmt: skip
    from strop.calibration.data import Data
    from strop.calibration.half_products import saves_time
    from strop.calibration.ladder import climb
    from strop.calibration.maker import EdgeMaker
    from strop.calibration.sizes import suit_sizes

    ranks = ranks_here()
    progress = progress if ranks.leads else False
    with show_progress("reading the data", None, progress):
        checksum = Data(recipe, prompts).checksum(steps)  # wrong data are told before the model is opened
    from strop.patching.block import check_reached
    from strop.patching.freeze import freeze
    from strop.patching.placement import device_of
    from strop.pretrained.load import open_model
    from strop.tasks.answers import Reader
    from strop.tasks.prose import fit_lengths

    opened = open_model(model, tokenizer, name, progress, device, dtype)
    check_reached(opened.model, partial)
    recipe = replace(recipe, lengths=fit_lengths(recipe.lengths, opened.model, beyond))
    reader = Reader(opened.tokenizer, device_of(opened.model))
    if sizes is None and prompts is None and named != "text":
        with freeze(opened.model):
            recipe = suit_sizes(opened.model, reader, recipe, progress)
        checksum = Data(recipe, prompts).checksum(steps)
    settings = replace(settings, half=saves_time(opened.model) if half is None else half)
    maker = EdgeMaker(opened, reader, Data(recipe, prompts), checksum, runs, progress)
    with freeze(opened.model):
        return climb(maker, settings, target) if form == AUTO else maker.make(settings)


def read_prompts(task: str | Path | Pairs) -> Prompts | None:
    """Return a user's own prompts, where that is what `task` means; None for a built-in task."""
    from strop.tasks.catalogue import TASKS
    from strop.tasks.prompts import Prompts

    if isinstance(task, str) and (task in (*TASKS, "text") or not (task.endswith(".jsonl") or Path(task).is_file())):
        return None
    return Prompts.read(task)


def _choose_guard(guard: Sequence[str] | None, task: str) -> tuple[str, ...]:
    from strop.tasks.catalogue import find_task

    if guard is None:
        return tuple(name for name in GUARD if name != task)
    return tuple(find_task(name).name for name in guard)
