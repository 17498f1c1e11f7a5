"""Batch size, gradient accumulation, and the batch that one optimizer step sees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from preflight.source.facts.data import BY_ENGINE, training_loader
from preflight.source.facts.settings import argument_of, deepspeed_config, trainer_setting, training_arguments
from preflight.source.facts.telling import fact_of, place_of, unknown
from preflight.source.launcher import Launch
from preflight.source.trace import parents_of, provenance
from preflight.source.training import TrainingLoop, guarded_more
from preflight.source.values import Known, Obj, Seq, Unknown, Value, options_of, plain, settle
from preflight.vocabulary.fact import Fact

if TYPE_CHECKING:
    from preflight.source.reading import Reading


def facts(reading: Reading, launch: Launch, gpus: int | None, known: dict[str, Fact]) -> dict[str, Fact]:
    """Facts of the batch."""
    accumulation = _accumulation(reading)
    micro = _micro(reading, gpus or launch.world_size or 1, accumulation)
    return {
        "batch.micro": micro,
        "gradient_accumulation": accumulation,
        "batch.global": _global(reading, micro, accumulation, known),
    }


def _micro(reading: Reading, world: int, accumulation: Fact) -> Fact:
    if training_arguments(reading) is not None:
        return fact_of(trainer_setting(reading, "per_device_train_batch_size"), None, int)
    config = deepspeed_config(reading)
    if config and isinstance(config.get("train_micro_batch_size_per_gpu"), int):
        return Fact(config["train_micro_batch_size_per_gpu"], None, "DeepSpeed configuration")
    loader = training_loader(reading)
    if loader is not None and loader.name == BY_ENGINE:
        total = config.get("train_batch_size") if config else None
        times = world * (accumulation.value if isinstance(accumulation.value, int) else 1)
        if isinstance(total, int) and total >= times:
            return Fact(total // times, None, f"train_batch_size {total} of the DeepSpeed configuration / {times}")
        return unknown("DeepSpeed makes the loader, and its configuration does not tell the batch")
    if loader is not None:
        return _of_loader(loader)
    found = _of_shape(reading)
    return found if found is not None else unknown("no data loader was recognised")


def _of_loader(loader: Obj) -> Fact:
    given = loader.argument(1, "batch_size")
    sampler = loader.kwargs.get("batch_sampler")
    if sampler is not None and not (isinstance(settle(sampler), Known)):
        made = settle(sampler)
        inner = made.argument(1, "batch_size") if isinstance(made, Obj) else None
        return fact_of(inner, "batch sampler", int) if inner is not None else unknown("the batch sampler decides")
    if given is None:
        if loader.open_args:
            return unknown("the loader's arguments are not all known")
        return Fact(1, place_of(loader), "default of DataLoader")
    return fact_of(given, None, int)


def _of_shape(reading: Reading) -> Fact | None:
    """A batch drawn by ``torch.randint(n, (batch,))`` or stacked from a comprehension, as language-model scripts do."""
    for loop in reading.loops[:1]:
        for event in loop.events:
            if event.name != "()" or reading.roles.of(event.receiver) != "model":
                continue
            given = event.input
            if given is None:
                continue
            if not any(id(option) in loop.behind_losses for option in options_of(event.result)):
                continue  # acting in an environment, or a look at a sample
            for part in _reshaped(given):
                if not isinstance(part, Obj):
                    continue
                if part.name in ("torch.randint", "torch.randn", "torch.rand", "torch.zeros"):
                    sizes = [settle(a) for a in (*part.args, *part.kwargs.values())]
                    shape = next((s for s in sizes if isinstance(s, Seq) and s.items), None)
                    first = (
                        settle(shape.items[0])
                        if shape is not None
                        else next((s for s in sizes if isinstance(s, Known)), None)
                    )
                    if (
                        isinstance(first, Known)
                        and isinstance(first.value, int)
                        and not (shape is None and part.name == "torch.randint")
                    ):
                        return fact_of(first, f"shape of {part.name.removeprefix('torch.')}", int)
                if part.name in (".view", ".reshape") and len(part.args) >= 2:
                    first = settle(part.args[0])
                    if isinstance(first, Known) and isinstance(first.value, int) and first.value > 0:
                        return fact_of(first, "shape of the batch", int)
            break
    return None


def _reshaped(value: Value) -> Iterator[Value]:
    """What a value was made from as long as its first dimension is that of the batch: not what was stacked to it."""
    queue, seen = [value], {id(value)}
    for part in queue:  # grows while it is gone through
        yield part
        ends = isinstance(part, Obj) and part.name.rpartition(".")[2] in _GATHERS
        parents = list(parents_of(part)) if not ends else _gathered(part)
        for parent in parents if len(queue) < 300 else ():
            if id(parent) not in seen:
                seen.add(id(parent))
                queue.append(parent)


def _gathered(value: Value) -> list[Value]:
    """What a comprehension goes through whose items are stacked: there are as many."""
    given = settle(value.args[0]) if isinstance(value, Obj) and value.name in _STACKS and value.args else None
    node = given.site.node if isinstance(given, Seq) and given.site is not None else None
    if not isinstance(given, Seq) or not isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        return []
    if len(node.generators) != 1 or node.generators[0].ifs:
        return []
    through = node.generators[0].iter
    return [
        part.receiver
        for item in given.items[:1]
        for part in provenance(item, 60)
        if isinstance(part, Obj) and part.kind == "item" and part.site is not None and part.site.node is through
        if part.receiver is not None
    ]


_STACKS = ("torch.stack", "numpy.stack")
_GATHERS = frozenset("stack cat concat concatenate vstack append popleft sample choice".split())


def _accumulation(reading: Reading) -> Fact:
    given = (
        trainer_setting(reading, "gradient_accumulation_steps")
        or argument_of(reading, "accelerator", "gradient_accumulation_steps")
        or argument_of(reading, "lightning_trainer", "accumulate_grad_batches")
    )
    if given is not None:
        return fact_of(given, None, int)
    config = deepspeed_config(reading)
    if config and isinstance(config.get("gradient_accumulation_steps"), int):
        return Fact(config["gradient_accumulation_steps"], None, "DeepSpeed configuration")
    for loop in reading.loops:
        return _of_loop(loop)
    if reading.made("lightning_trainer"):
        return Fact(1, None, "default of Trainer")
    return unknown("no training loop was recognised")


def _of_loop(loop: TrainingLoop) -> Fact:
    if loop.micro is not None:
        obj = settle(loop.micro.value) if loop.micro.value is not None else None
        if isinstance(obj, Obj) and isinstance(obj.data, range):
            bound = obj.args[-1] if len(obj.args) == 1 else None
            return Fact(
                len(obj.data),
                place_of(bound or obj),
                getattr(settle(bound), "how", None) if bound is not None else "inner loop",
            )
        return unknown("the number of micro-batches of the inner loop is not known")
    for step in loop.steps:
        for frame in guarded_more(step, loop.frame):
            if any(b.context.within(frame) for b in loop.backwards):
                continue  # what is guarded is the whole update: nothing adds up
            found = modulus(frame.value)
            if found is not None:
                return fact_of(found, None, int)
            if _counts(frame.value):
                return unknown("the optimizer steps where a count is reached, which is not known")
    return Fact(1, None, "every batch is followed by a step")


def _counts(test: Value | None) -> bool:
    """Whether a test holds how many batches there were since the last step against a bound: ``i - last >= k``."""
    made = settle(test) if test is not None else None
    if not isinstance(made, Obj) or made.kind != "op" or made.name not in (">=", ">", "=="):
        return False
    since = settle(made.args[0])
    if isinstance(since, Unknown):
        return since.site is not None and isinstance(getattr(since.site.node, "op", None), ast.Sub)
    return isinstance(since, Obj) and since.kind == "op" and since.name == "-"


def modulus(test: Value | None) -> Value | None:
    """The k of a test ``(i + 1) % k == 0``, where the index is counted by a loop."""
    for part in provenance(test, 60):
        if isinstance(part, Obj) and part.kind == "op" and part.name == "%" and len(part.args) == 2:
            return part.args[1]
        if isinstance(part, Unknown) and len(part.parents) == 2 and part.site is not None:
            node = part.site.node
            if type(getattr(node, "op", None)).__name__ == "Mod":
                return part.parents[1]
    return None


def _global(reading: Reading, micro: Fact, accumulation: Fact, known: dict[str, Fact]) -> Fact:
    world = known.get("world_size")
    ranks = world.value if world is not None and world.known else None
    if not micro.known or not accumulation.known:
        return unknown((micro.reason or accumulation.reason) or "not known")
    if ranks is None:
        if (
            reading.trace.calls("torch.distributed.init_process_group")
            or training_arguments(reading) is not None
            or reading.made("accelerator")
        ):
            return unknown("the world size is not known: give --gpus or --launch")
        ranks = 1
    return Fact(
        micro.value * accumulation.value * ranks,
        micro.location,
        f"{micro.value} per GPU x {accumulation.value} accumulated x {ranks} GPU{'s' * (ranks != 1)}",
    )


__all__ = ["facts", "modulus", "plain"]
