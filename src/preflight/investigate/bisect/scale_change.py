"""What changes between two sizes of a run, computed: nodes, groups, batch, messages, steps of collectives, memory."""

from __future__ import annotations

import math

import msgspec

from preflight.cost.collectives import Group
from preflight.cost.memory import estimate_memory
from preflight.cost.optimizers import optimizer_state
from preflight.cost.parameters import count_parameters
from preflight.cost.recipe import recipe_of
from preflight.cost.shares import share_of
from preflight.errors import UsageError
from preflight.investigate.bisect.lattice import Shape
from preflight.vocabulary.hardware import Gpu
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """A run of which the size is to change.

    Attributes:
        shape: What a size has to fit, and the batch. nodes_per_switch: Nodes below one leaf switch, where it is known.
        model, run, parallel, gpu: For messages and memory, where they are known.
        parameters: Where only their number is known.
    """

    shape: Shape
    nodes_per_switch: int | None = None
    model: ModelSpec | None = None
    run: RunSpec | None = None
    parallel: ParallelDims | None = None
    gpu: Gpu | None = None
    parameters: float | None = None


class Quantity(msgspec.Struct, frozen=True, kw_only=True):
    """One thing at both sizes; None where it is not known. ``unit`` empty: a count."""

    name: str
    before: float | None
    after: float | None
    unit: str = ""
    arithmetic: str = ""

    @property
    def changed(self) -> bool:
        """Whether it is another one."""
        return self.before != self.after


class ScaleChange(msgspec.Struct, frozen=True, kw_only=True):
    """Two sizes compared; ``thresholds``: what begins or ends between them, a sentence each."""

    before: int
    after: int
    quantities: tuple[Quantity, ...]
    thresholds: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Quantity:
        """Return a quantity by its name."""
        return next(one for one in self.quantities if one.name == name)


class _At(msgspec.Struct, frozen=True, kw_only=True):
    """Everything at one size."""

    gpus: int
    nodes: int
    switches: int | None
    copies: int
    accumulation: int
    global_batch: int
    inside: int
    group_nodes: int
    message: float | None
    sent: float | None
    slice: float | None
    ring_steps: int
    tree_depth: int
    memory: float | None
    reason: str | None


def scale_change(before: int, after: int, setup: Setup) -> ScaleChange:
    """Compare two sizes.

    Raises:
        UsageError: One of them is not possible.
    """
    for size in (before, after):
        reason = setup.shape.why_not(size)
        if reason is not None:
            raise UsageError(f"{size} GPUs are not possible: {reason}")
    one, other = _at(before, setup), _at(after, setup)
    return ScaleChange(
        before=before, after=after, quantities=_quantities(one, other, setup), thresholds=_thresholds(one, other, setup),
        notes=tuple(dict.fromkeys(reason for reason in (one.reason, other.reason) if reason)),
    )  # fmt: skip


def _at(gpus: int, setup: Setup) -> _At:
    shape = setup.shape
    nodes, copies = shape.nodes(gpus), gpus // shape.copy
    accumulation = (setup.run.gradient_accumulation if setup.run is not None else 1) or 1
    if shape.global_batch is not None:
        accumulation = shape.global_batch // (copies * shape.micro_batch)
    inside = int(Group(size=copies, stride=shape.tensor * shape.context).ranks_in_node(shape.local(gpus)))
    group_nodes = math.ceil(copies / inside)
    message = _message(copies, setup)
    factor, rounds = _traffic(setup)
    memory, reason = _memory(gpus, setup)
    return _At(
        gpus=gpus, nodes=nodes, copies=copies, accumulation=accumulation, inside=inside, group_nodes=group_nodes,
        switches=None if setup.nodes_per_switch is None else math.ceil(nodes / setup.nodes_per_switch),
        global_batch=copies * shape.micro_batch * accumulation, message=message,
        sent=None if message is None else factor * (copies - 1) / copies * message,
        slice=None if message is None else message / copies,
        ring_steps=rounds * (copies - 1), tree_depth=2 * math.ceil(math.log2(group_nodes)) if group_nodes > 1 else 0,
        memory=memory, reason=reason,
    )  # fmt: skip


def _traffic(setup: Setup) -> tuple[float, int]:
    """Factor of bytes and of ring steps: an all-reduce passes everything twice; sharded parameters are gathered once more."""
    sharded = setup.parallel is not None and setup.parallel.zero_stage >= 3
    return (3.0, 3) if sharded else (2.0, 2)


def _message(copies: int, setup: Setup) -> float | None:
    """Bytes of gradients that a rank reduces with the others in a step."""
    shape = setup.shape
    if setup.model is not None and setup.run is not None:
        count = count_parameters(setup.model)
        if count is not None:
            parallel = _spread(copies, setup)
            share = share_of(setup.model, setup.run, count, parallel, 0)
            return float(share.trainable * recipe_of(setup.run, parallel).gradient)
    if setup.parameters is not None:
        width = 4.0 if setup.run is None else float(recipe_of(setup.run, _spread(copies, setup)).gradient)
        return setup.parameters / (shape.tensor * shape.pipeline) * width
    return None


def _spread(copies: int, setup: Setup) -> ParallelDims:
    """The layout at a size: the data-parallel ranks are what changes."""
    shape = setup.shape
    given = setup.parallel or ParallelDims(framework="ddp" if copies * shape.copy > 1 else None)
    shard = copies if given.zero_stage > 0 else 1
    if given.dp_replicate > 1 and given.dp_shard > 1 and copies % given.dp_shard == 0:
        shard = given.dp_shard  # groups of this size are copied (HSDP)
    return msgspec.structs.replace(
        given, tp=shape.tensor, pp=shape.pipeline, cp=shape.context, dp_shard=shard, dp_replicate=copies // shard
    )


def _memory(gpus: int, setup: Setup) -> tuple[float | None, str | None]:
    if setup.model is None or setup.run is None:
        return None, None
    if setup.run.optimizer is None or optimizer_state(setup.run.optimizer, setup.run.optimizer_momentum) is None:
        return None, "memory is not known: the optimizer is not"
    shape = setup.shape
    copies = gpus // shape.copy
    accumulation = setup.run.gradient_accumulation
    if shape.global_batch is not None:
        accumulation = shape.global_batch // (copies * shape.micro_batch)
    run = msgspec.structs.replace(
        setup.run, micro_batch=shape.micro_batch, gradient_accumulation=accumulation,
        global_batch=copies * shape.micro_batch * accumulation,
    )  # fmt: skip
    estimate = estimate_memory(setup.model, run, _spread(copies, setup), setup.gpu)
    if estimate.peak_bytes is None:
        return None, f"memory is not known: {estimate.reason}"
    return estimate.peak_bytes.mid, None


def _quantities(a: _At, b: _At, setup: Setup) -> tuple[Quantity, ...]:
    shape = setup.shape
    factor, rounds = _traffic(setup)
    copy = f"{shape.tensor} x {shape.pipeline}" + (f" x {shape.context}" if shape.context > 1 else "")
    found = [
        Quantity(name="gpus", before=a.gpus, after=b.gpus),
        Quantity(name="nodes", before=a.nodes, after=b.nodes, arithmetic=f"GPUs / {shape.gpus_per_node}"),
        Quantity(name="switch groups", before=a.switches, after=b.switches, arithmetic=f"nodes / {setup.nodes_per_switch}"),
        Quantity(name="model copies", before=a.copies, after=b.copies, arithmetic=f"GPUs / ({copy})"),
        Quantity(name="samples per GPU and micro-step", before=shape.micro_batch, after=shape.micro_batch),
        Quantity(name="micro-steps per update", before=a.accumulation, after=b.accumulation,
                 arithmetic="global batch / (copies x micro-batch)"),
        Quantity(name="global batch", before=a.global_batch, after=b.global_batch,
                 arithmetic="copies x micro-batch x micro-steps"),
        Quantity(name="data-parallel ranks that share a node", before=a.inside, after=b.inside),
        Quantity(name="nodes in a data-parallel group", before=a.group_nodes, after=b.group_nodes),
        Quantity(name="gradient bytes per rank", before=a.message, after=b.message, unit="bytes",
                 arithmetic="trained parameters of a rank x bytes of a gradient"),
        Quantity(name="bytes sent per rank and update", before=a.sent, after=b.sent, unit="bytes",
                 arithmetic=f"{factor:g} (n - 1) / n x gradient bytes"),
        Quantity(name="bytes of one ring message", before=a.slice, after=b.slice, unit="bytes", arithmetic="gradient bytes / n"),
        Quantity(name="steps of the ring", before=a.ring_steps, after=b.ring_steps, arithmetic=f"{rounds} (n - 1)"),
        Quantity(name="steps of the tree between nodes", before=a.tree_depth, after=b.tree_depth,
                 arithmetic="2 ceil(log2 nodes)"),
        Quantity(name="peak memory per GPU", before=a.memory, after=b.memory, unit="bytes", arithmetic="the formulas of plan"),
        Quantity(name="failures per hour, relative", before=1.0, after=b.nodes / a.nodes, arithmetic="proportional to nodes"),
    ]  # fmt: skip
    return tuple(one for one in found if one.before is not None or one.after is not None)


def _thresholds(a: _At, b: _At, setup: Setup) -> tuple[str, ...]:
    """What is there at one size and not at the other; the places at which failures of scale begin."""
    low, high = (a, b) if a.gpus <= b.gpus else (b, a)
    said = []
    if low.nodes == 1 < high.nodes:
        said.append("More than one node: the network, the rendezvous and the clocks of several hosts come into play.")
    if low.copies == 1 < high.copies:
        said.append("More than one copy of the model: gradients are reduced for the first time.")
    if low.group_nodes == 1 < high.group_nodes:
        said.append("Data-parallel groups leave the node: their traffic goes over the network.")
    if low.switches is not None and low.switches == 1 < (high.switches or 1):
        said.append("More than one leaf switch: traffic passes the spine.")
    if a.global_batch != b.global_batch:
        ratio = b.global_batch / a.global_batch
        said.append(
            f"The global batch changes {a.global_batch} -> {b.global_batch}: the learning rate and the warm-up belong to it "
            f"(x {ratio:g} by the linear rule, x {math.sqrt(ratio):.3g} by the root)."
        )
    if 1 in (a.accumulation, b.accumulation) and a.accumulation != b.accumulation:
        said.append("Micro-steps are accumulated at one size only: code around the accumulation runs, or does not.")
    if low.slice is not None and high.slice is not None and high.slice < 65536 <= low.slice:
        said.append("Messages of the ring fall below 64 KiB: latency counts instead of bandwidth.")
    capacity = setup.gpu.memory_bytes if setup.gpu is not None else None
    if (
        capacity is not None
        and a.memory is not None
        and b.memory is not None
        and (a.memory > capacity) != (b.memory > capacity)
    ):
        said.append("The computed peak exceeds the card at one of the sizes.")
    return tuple(said)


__all__ = ["Quantity", "ScaleChange", "Setup", "scale_change"]
