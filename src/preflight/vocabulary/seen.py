"""What rules look into of a dry run: observations at lines, and the modules, parameters, optimizers, loaders and inputs that were seen."""

from __future__ import annotations

from typing import Any

import msgspec


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
