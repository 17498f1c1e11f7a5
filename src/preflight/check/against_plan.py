"""A script beside the plan that was made for it: what the plan settled and the script sets otherwise.

Every difference is weighed alone: the plan's own arithmetic is done again with that one value of the script.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from preflight.cost.memory import estimate_memory
from preflight.vocabulary.fact import Fact
from preflight.vocabulary.hardware import Gpu
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.plan import Candidate, Plan
from preflight.vocabulary.run import ParallelDims, RunSpec

_NOTICED = 0.01
"""Two counts of parameters, and two estimates of memory, that are nearer than this share are the same."""


class PlanGiven(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that a script is held against.

    Attributes:
        path: The file that it came from.
        plan: The plan; its ``chosen`` layout is there.
        gpu: The key of its GPU in the catalog. gpus: How many there are.
        device: Its devices, in words. capacity_bytes: The memory of one, as the plan counted it.
    """

    path: str
    plan: Plan
    gpu: str | None = None
    gpus: int | None = None
    device: str | None = None
    capacity_bytes: int | None = None

    @property
    def layout(self) -> Candidate:
        """The layout that the plan chose."""
        assert self.plan.chosen is not None
        return self.plan.chosen


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a plan settles, beside what the script says of it.

    Attributes:
        what: Its name for a person: ``samples in a forward pass``.
        fact: The fact of the script that says it.
        planned: What the plan counts on. written: What the script sets; None where that is not known.
        reason: Why it is not known.
        whose: Who sets it, as a sentence begins.
        device_bytes: Bytes of a GPU by the plan, and with this one value of the script; None where they are the same, or
            no formula says.
    """

    what: str
    fact: str
    planned: Any
    written: Any = None
    reason: str | None = None
    whose: str = "the script has"
    device_bytes: tuple[float, float] | None = None

    @property
    def differs(self) -> bool:
        """Whether the script says something, and something else."""
        if self.written is None:
            return False
        if self.fact == "model.parameters":
            return bool(abs(self.written - self.planned) > _NOTICED * self.planned)
        return bool(self.written != self.planned)


def settings(
    given: PlanGiven, gpu: Gpu | None, facts: dict[str, Fact], run: RunSpec, parallel: ParallelDims
) -> list[Setting]:
    """Return everything that the plan settles and that can be read from a script, in the order of importance.

    Args:
        given: The plan.
        gpu: The GPU that the check is for.
        facts: What was read from the script.
        run: The script's run.
        parallel: How the script spreads it.
    """
    return [_weighed(one, change, given, gpu) for one, change in _pairs(given, gpu, facts, run, parallel)]


_Change = dict[str, Any]


def _pairs(
    given: PlanGiven, gpu: Gpu | None, facts: dict[str, Fact], run: RunSpec, parallel: ParallelDims
) -> Iterator[tuple[Setting, _Change]]:
    """Yield each setting with what it changes in the plan's run and layout."""
    layout = given.layout
    planned, spread = layout.run, layout.parallel
    model = given.plan.model
    if model is not None and model.parameters is not None:
        yield _pair("parameters of the model", "model.parameters", model.parameters, facts), {}
    if given.gpu is not None and gpu is not None:
        planned_gpu = gpu.title if gpu.name == given.gpu else given.device or given.gpu
        yield (
            Setting(what="GPU", fact="framework", planned=planned_gpu, written=gpu.title, whose="the check is for"),
            {},
        )
    yield from _spread(spread, facts, parallel)
    accumulation = facts["gradient_accumulation"]
    for what, fact, field in (
        ("samples in a forward pass", "batch.micro", "micro_batch"),
        ("forward passes per optimizer step", "gradient_accumulation", "gradient_accumulation"),
        ("samples per optimizer step", "batch.global", "global_batch"),
        ("tokens of a sample", "sequence_length", "sequence_length"),
        ("pixels of an image's side", "image_size", "image_size"),
    ):
        value = getattr(planned, field)
        if value is not None and not (fact == "gradient_accumulation" and not accumulation.known and value == 1):
            pair = _pair(what, fact, value, facts)
            yield pair, {field: pair.written}
    for what, fact, field in (("precision", "precision", "precision"), ("optimizer", "optimizer.name", "optimizer")):
        value, written = getattr(planned, field), getattr(run, field)
        if value is not None:
            yield _pair(what, fact, value, facts, written if facts[fact].known else None), {field: written}
    if facts["framework"].known:
        # A script asks for recomputation or not; which blocks or operators it is for is not read from it.
        wanted, written = ("none" if one.recompute == "none" else "some" for one in (planned, run))
        change = {"recompute": run.recompute, "recompute_layers": None}
        yield Setting(what="recomputation of activations", fact="framework", planned=wanted, written=written), change


def again(path: str, gpu: Gpu | None, gpus: int | None, arguments: Sequence[str] | None) -> str:
    """Return the command that plans the script as it is checked: a plan of other arguments would differ again."""
    words = ["preflight", "plan", "--script", path]
    words += ["--gpu", gpu.name] if gpu is not None else []
    words += ["--gpus", str(gpus)] if gpus is not None else []
    return shlex.join([*words, *(["--", *arguments] if arguments else [])])


def _spread(planned: ParallelDims, facts: dict[str, Fact], parallel: ParallelDims) -> Iterator[tuple[Setting, _Change]]:
    strategy = facts["distributed.strategy"]
    world = facts["world_size"]
    yield _pair("GPUs", "world_size", planned.world_size, facts), {}
    if planned.world_size == 1 or not world.known:
        return
    name = _spread_name(planned)
    if not strategy.known:
        yield (
            Setting(what="the layout over GPUs", fact="distributed.strategy", planned=name, reason=strategy.reason),
            {},
        )
        return
    # Of tensor, pipeline and context parallelism the reading says nothing, so a plan with them is compared by name only.
    written = _spread_name(parallel)
    alone = planned.tp == planned.pp == planned.cp == planned.ep == 1
    change = {"parallel": parallel} if alone and parallel.world_size == planned.world_size else {}
    yield Setting(what="the layout over GPUs", fact="distributed.strategy", planned=name, written=written), change


def _spread_name(dims: ParallelDims) -> str:
    """What is sharded over how many ranks, and what else splits the model: the words of a layout that a script can have."""
    parts = []
    if dims.dp_shard > 1:
        sharded = {0: "nothing", 1: "optimizer states", 2: "optimizer states and gradients", 3: "everything"}
        parts.append(f"{sharded[dims.zero_stage]} sharded over {dims.dp_shard}")
    if dims.dp_replicate > 1:
        parts.append(f"{dims.dp_replicate} copies")
    degrees = (("tensor", dims.tp), ("pipeline", dims.pp), ("context", dims.cp), ("expert", dims.ep))
    parts += [f"{name} parallel {degree}" for name, degree in degrees if degree > 1]
    return ", ".join(parts) or "one GPU"


def _pair(what: str, fact: str, planned: Any, facts: dict[str, Fact], written: Any = None) -> Setting:
    said = facts[fact]
    return Setting(
        what=what, fact=fact, planned=planned, written=said.value if written is None else written, reason=said.reason
    )


def _weighed(one: Setting, change: _Change, given: PlanGiven, gpu: Gpu | None) -> Setting:
    """Add what the script's value alone does to the memory of the plan."""
    model, layout = given.plan.model, given.layout
    if not one.differs or not change or model is None:
        return one
    parallel = change.get("parallel", layout.parallel)
    fields = {name: value for name, value in change.items() if name != "parallel"}
    before = _device_bytes(model, layout.run, layout.parallel, given, gpu)
    after = _device_bytes(model, msgspec.structs.replace(layout.run, **fields), parallel, given, gpu)
    if before is None or after is None or abs(after - before) < _NOTICED * before:
        return one
    return msgspec.structs.replace(one, device_bytes=(before, after))


def _device_bytes(
    model: ModelSpec, run: RunSpec, parallel: ParallelDims, given: PlanGiven, gpu: Gpu | None
) -> float | None:
    found = estimate_memory(model, run, parallel, gpu, given.capacity_bytes).device_bytes
    return found.mid if found is not None else None
