"""Words of a dry run: what was seen when a script ran on a virtual GPU."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from preflight.vocabulary.probe import Probe

Outcome = Literal[
    "ended", "stopped", "exited", "failed", "time is up", "memory is up", "no torch", "torch too old", "python too old"
]


class Holder(msgspec.Struct, frozen=True):
    """Who holds memory at the peak.

    Attributes:
        category: ``parameter``, ``gradient``, ``optimizer state``, ``activation``, ``temporary``, ``buffer``, ``input``.
        module: Path of the module, or of the parameter; ``*`` stands for the numbers of repeated blocks.
        line: ``file:line`` of the script.
        bytes: Bytes of its blocks.
    """

    category: str
    module: str
    line: str
    bytes: int


class Moment(msgspec.Struct, frozen=True):
    """The highest point of a phase of a step: bytes handed out, and held from the device."""

    step: int
    phase: str
    allocated: int
    reserved: int


class Instant(msgspec.Struct, frozen=True):
    """The highest point of a short piece of the run: what the bytes handed out are for, and how many the allocator holds."""

    step: int
    phase: str
    reserved: int
    owners: dict[str, int]


class Full(msgspec.Struct, frozen=True):
    """The first request for which the GPU had no room, bytes."""

    phase: str
    step: int
    module: str
    line: str
    operator: str
    requested: int
    allocated: int
    reserved: int


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """Memory that grows from step to step of a training, or from round to round of a loop that evaluates.

    Attributes:
        phase: Where it grows.
        bytes: What a step or round leaves. steady: Whether each left as much.
        seen: Steps or rounds that were run.
        length: Of how many; None where that is not known.
        bounded: Whether who keeps it empties it on the way, or can hold only so much.
        allocated: Bytes in blocks at the highest point of the last step. reserved: The same of segments.
        loop: ``file:line`` of the loop.
        holders: What is left, by the line that made it.
        keeper: Who keeps it, as the script calls it; empty where that was not found. kind: What that is, such as ``list``.
        kept_at: The lines that add to it. emptied_at: Lines that empty it.
    """

    phase: Literal["training", "evaluation"]
    bytes: int
    steady: bool
    seen: int
    length: int | None = None
    bounded: bool = False
    allocated: int = 0
    reserved: int = 0
    loop: str = ""
    holders: tuple[Holder, ...] = ()
    keeper: str = ""
    kind: str = ""
    kept_at: tuple[str, ...] = ()
    emptied_at: tuple[str, ...] = ()


class Sync(msgspec.Struct, frozen=True):
    """The host waits for the GPU."""

    kind: str
    line: str
    phase: str
    step: int
    count: int


class Busy(msgspec.Struct, frozen=True):
    """Operators with a graph that a line of the script, or what it calls, ran in one step."""

    line: str
    step: int
    operators: int


class Cut(msgspec.Struct, frozen=True):
    """A loop that was ended early: rounds that were run, of how many."""

    line: str
    rounds: int
    length: int | None = None


class Frame(msgspec.Struct, frozen=True):
    """A frame of the person's own code in a traceback."""

    file: str
    line: int | None
    function: str
    text: str


class Kind(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one operator does to tensors of certain shapes.

    Attributes:
        phase: ``forward``, ``backward``, ``recompute``, ``optimizer``, ``eval`` or ``init``.
        dtype: Type of the numbers, ``tf32`` for fp32 products on tensor cores.
        kernels: Launches; 0 for views.
        flop: Floating-point operations of products, convolutions and attention; None for others.
        bytes: Bytes read and written, or sent by a collective.
        product: A product's batch, rows, columns and depth.
        shape: Shape of the first result. table: Rows of the table that an embedding looks up.
        ranks: Number of ranks of a collective, else None.
    """

    operator: str
    phase: str
    dtype: str = ""
    kernels: int = 1
    flop: float | None = None
    bytes: int = 0
    product: tuple[int, int, int, int] | None = None
    shape: tuple[int, ...] = ()
    table: int | None = None
    ranks: int | None = None


class Work(msgspec.Struct, frozen=True, omit_defaults=True):
    """The operators of one optimizer step: the kinds, the kind of every operator in order, and its backward passes."""

    kinds: tuple[Kind, ...] = ()
    order: tuple[int, ...] = ()
    rounds: int = 0


class Observation(msgspec.Struct, frozen=True):
    """Something that was watched for and happened.

    Attributes:
        what: What happened, in words: ``backward``, ``optimizer step``.
        order: Its place among all observations.
        line: ``file:line`` of the script.
        module: Path of the module that was running.
        phase: The phase of the run.
        step: Optimizer steps done before.
        count: How often, where like ones are counted.
        data: What else is known of it.
    """

    what: str
    order: int
    line: str
    module: str
    phase: str
    step: int
    count: int = 1
    data: dict[str, Any] = {}


class ModuleSeen(msgspec.Struct, frozen=True):
    """A module of a network.

    Attributes:
        network: Which network, the largest first; None for one that is called and belongs to none.
        path: Its name in the network. kind: Its class.
        training: Its mode when it was last looked at.
        parameters: Elements of its parameters, those of its parts included.
        calls: Calls. graph_calls: Those with gradients. training_calls: Those of them in training mode.
        gradient: Whether an output of it required a gradient.
        line: ``file:line`` that made it.
        keeper: ``Class.attribute`` of a plain container that holds one that belongs to no network. learning: Elements of such
            a one that require a gradient. optimized: Whether an optimizer has them. loaded: Whether a checkpoint gave them.
    """

    network: int | None
    path: str
    kind: str
    training: bool = False
    parameters: int = 0
    calls: int = 0
    graph_calls: int = 0
    training_calls: int = 0
    gradient: bool = False
    line: str = ""
    keeper: str = ""
    learning: int = 0
    optimized: bool = False
    loaded: bool = False


class ParameterSeen(msgspec.Struct, frozen=True):
    """A parameter of a network or of an optimizer.

    Attributes:
        network: Which network; None for one that only an optimizer has.
        name: Its name in the network.
        shape: Its shape, of all ranks together. bytes: Bytes on this rank.
        trainable: Whether it requires a gradient.
        optimizers: The optimizers that hold it.
        gradients: Backward passes that gave it a gradient.
        made_after: Number of optimizers that there were when a module got it; None where that was not seen.
        loaded: Whether a checkpoint gave its values. written: Whether the script itself wrote to it after the first forward pass.
    """

    network: int | None
    name: str
    shape: tuple[int, ...]
    dtype: str
    trainable: bool
    bytes: int
    optimizers: tuple[int, ...] = ()
    gradients: int = 0
    made_after: int | None = None
    loaded: bool = False
    written: bool = False


class OptimizerSeen(msgspec.Struct, frozen=True):
    """An optimizer: its class, the ``file:line`` that made it, its parameters and groups, and how often it stepped."""

    kind: str
    line: str
    parameters: int
    groups: int = 1
    steps: int = 0
    defaults: dict[str, Any] = {}


class PrecisionSeen(msgspec.Struct, frozen=True):
    """Products, or losses, of training forwards that were computed in one type at one line.

    Attributes:
        what: ``product`` or ``loss``.
        module: Path of the module that ran.
        line: ``file:line`` of the script.
        dtype: The type of the input.
        autocast: ``on``, ``off`` where it was switched off inside a region that has it on, or empty outside of all.
        calls: How often. multiplications: Of all calls together.
    """

    what: str
    module: str
    line: str
    dtype: str
    autocast: str = ""
    calls: int = 0
    multiplications: int = 0


class LoaderSeen(msgspec.Struct, frozen=True):
    """A data loader.

    Attributes:
        line: ``file:line`` that made it.
        batch_size: Samples of a batch; None where a sampler of batches decides.
        workers: Worker processes that were asked for. pinned: Whether batches are to be pinned. persistent: Whether
            workers are kept between epochs.
        drop_last: Whether the last, smaller batch is left out.
        sampler: Class that chooses the samples. order: ``random``, ``stored`` or ``other``.
        dataset: Class of the dataset. samples: Its length. batches: Length of the loader.
        trains: Whether backward passes followed its batches.
        rounds: How often it was iterated.
    """

    line: str
    batch_size: int | None = None
    workers: int = 0
    pinned: bool = False
    persistent: bool = False
    drop_last: bool = False
    sampler: str = ""
    order: str = "other"
    dataset: str = ""
    samples: int | None = None
    batches: int | None = None
    trains: bool = False
    rounds: int = 0


class InputSeen(msgspec.Struct, frozen=True):
    """The first training call of a model: its class, where it was called, the shapes of its tensors."""

    module: str
    line: str
    shapes: tuple[tuple[int, ...], ...]


class Changed(msgspec.Struct, frozen=True):
    """A change that was made to the run from outside: what was done and how often, and why something could not be done."""

    name: str
    done: dict[str, int] = {}
    refused: tuple[str, ...] = ()


class Call(msgspec.Struct, frozen=True, array_like=True):
    """A collective: its operator, bytes, ``file:line``, step and phase, and the place of its group among all groups."""

    operator: str
    bytes: int
    line: str
    step: int
    phase: str
    group: int


class RankSeen(msgspec.Struct, frozen=True, kw_only=True):
    """One of the processes that were run: how it ended, and its memory."""

    rank: int
    outcome: Outcome
    steps: int
    peak_bytes: int
    reserved_bytes: int
    full: bool = False
    error: str | None = None


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """Two ranks that take part in the same groups call different collectives: each waits for the other for ever.

    Attributes:
        ranks: The two.
        group: The ranks of the group in which they differ.
        position: How many of the group's collectives they have in common before.
        calls: What each of them calls next; None for one that calls nothing any more.
    """

    ranks: tuple[int, int]
    group: tuple[int, ...]
    position: int
    calls: tuple[Call | None, Call | None]


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """What a dry run saw.

    Attributes:
        outcome: How it ended. ``stopped``: enough steps were done; ``failed``: the script raised.
        steps: Optimizer steps.
        operators: Operators on the GPU.
        peak_bytes: The highest number of bytes in blocks. reserved_bytes: The same of segments.
        categories: Bytes at the peak by what they are for.
        course: How full the GPU was over the run, in pieces of about as many allocations each.
        rank: Which process was run. world: How many there are. others: Ranks that differ by what the script says.
        communicators: Groups for which the communication library holds memory on this GPU.
        groups: The ranks of each group. calls: The collectives, in order.
        ranks: The processes that were run; the memory is that of the most loaded one. loaded: Which that is.
        divergences: Where ranks call different collectives.
        messages: What stages of a pipeline sent of shapes, by stage.
        growth: Memory that grows from step to step.
        saves: Paths of the checkpoints that the script wrote.
        refused: What the guard refused, with how often.
        missing: Names that this PyTorch lacks. python: The version of Python, where it is too old.
        assumptions: What stood in for something that was missing: packages, data, pretrained configurations.
        lines: The lines that ran most operators.
        observations: What was watched for and happened, in order.
        modules: The modules of the networks. parameters: Their parameters. made: The optimizers. loaders: The data loaders.
        precision: The types in which products and losses of training forwards were computed.
        reached: File to the first lines of its blocks that ran.
        inputs: What models were given when they first learned from a batch.
        changed: What the changes that the job asked for did.
        probe: What a second run with real numbers saw.
        status: With which status the script left. stuck: ``file:line`` of a script that did not end when it was told to.
        closed: What the kernel kept the script from: ``network``, ``files``.
        error: Class of the exception. message: Its text. frames: Its frames in the person's own code.
        hint: What is known to help against it: what to install, which release removed a name.
    """

    outcome: Outcome
    torch: str = ""
    seconds: float = 0.0
    steps: int = 0
    backwards: int = 0
    operators: int = 0
    peak_bytes: int = 0
    peak_phase: str = "init"
    peak_step: int = 0
    reserved_bytes: int = 0
    categories: dict[str, int] = {}
    holders: tuple[Holder, ...] = ()
    timeline: tuple[Moment, ...] = ()
    course: tuple[Instant, ...] = ()
    full: Full | None = None
    growth: tuple[Growth, ...] = ()
    rank: int = 0
    world: int | None = None
    others: tuple[int, ...] = ()
    communicators: int = 0
    groups: tuple[tuple[int, ...], ...] = ()
    calls: tuple[Call, ...] = ()
    ranks: tuple[RankSeen, ...] = ()
    loaded: int = 0
    divergences: tuple[Divergence, ...] = ()
    messages: dict[str, str] = {}
    syncs: tuple[Sync, ...] = ()
    lines: tuple[Busy, ...] = ()
    cut: tuple[Cut, ...] = ()
    optimizers: tuple[str, ...] = ()
    work: Work = Work()
    saves: tuple[str, ...] = ()
    refused: dict[str, int] = {}
    missing: tuple[str, ...] = ()
    python: str = ""
    assumptions: tuple[str, ...] = ()
    observations: tuple[Observation, ...] = ()
    modules: tuple[ModuleSeen, ...] = ()
    parameters: tuple[ParameterSeen, ...] = ()
    made: tuple[OptimizerSeen, ...] = ()
    loaders: tuple[LoaderSeen, ...] = ()
    precision: tuple[PrecisionSeen, ...] = ()
    reached: dict[str, tuple[int, ...]] = {}
    inputs: tuple[InputSeen, ...] = ()
    changed: tuple[Changed, ...] = ()
    probe: Probe | None = None
    status: str = ""
    stuck: str = ""
    closed: tuple[str, ...] = ()
    error: str | None = None
    message: str | None = None
    frames: tuple[Frame, ...] = ()
    deepest: tuple[str, ...] = ()
    hint: str | None = None
