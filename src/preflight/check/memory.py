"""The memory of a run by formula, from what reading the script gave."""

from __future__ import annotations

import msgspec

from preflight.check.asked import Device
from preflight.check.verdict import ALL_TRAINED, ANY_PRECISION, trains
from preflight.vocabulary.fact import Fact
from preflight.vocabulary.memory import MemoryEstimate, TimelinePoint
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.quantity import format_bytes
from preflight.vocabulary.run import ParallelDims, RunSpec


def memory_of(
    facts: dict[str, Fact], model: ModelSpec | None, run: RunSpec, parallel: ParallelDims, device: Device
) -> MemoryEstimate | None:
    """The memory, or the reason why it is not known; None where nothing trains."""
    if not trains(facts):
        return (
            MemoryEstimate(capacity_bytes=device.capacity_bytes, reason="no PyTorch training was recognised")
            if device.capacity_bytes
            else None
        )
    if model is None or model.parameters is None:
        reason = facts["model.parameters"].reason or "the size of the model is not known"
        unsized = MemoryEstimate(capacity_bytes=device.capacity_bytes, reason=reason)
        return _of_known_parts(unsized, facts, run, parallel, device)
    found = _of_any_precision(facts, model, run, parallel, device) or _sized(facts, model, run, parallel, device)
    if found.peak_bytes is not None:
        found = _within_bounds(found, facts, model, run, parallel, device)
    return found if found.peak_bytes is not None else _at_least(found, facts, model, run, parallel, device)


def _sized(
    facts: dict[str, Fact], model: ModelSpec, run: RunSpec, parallel: ParallelDims, device: Device
) -> MemoryEstimate:
    """The memory of a run whose parameters are known, all of them trained unless the run says how many are."""
    from preflight.cost.memory import estimate_memory

    for key in ("precision", "optimizer.name", "batch.micro"):
        if not facts[key].known:
            reason = f"{key} is not known: {facts[key].reason}"
            most = _most(model, run, parallel, device, "micro_batch") if key == "batch.micro" else None
            more = f"; up to {most:,} samples fit" if most else ""
            return MemoryEstimate(capacity_bytes=device.capacity_bytes, reason=reason + more)
    if run.length_schedule:
        return _over_schedule(model, run, parallel, device)
    found = estimate_memory(model, run, parallel, device.gpu, device.capacity_bytes)
    if model.activation_assumed is not None and found.peak_bytes is not None:
        return msgspec.structs.replace(found, assumed=model.activation_assumed)
    found = _of_any_image(found, model, run, parallel, device) if run.image_size is None else found
    return _of_any_length(found, model, run, parallel, device) if run.sequence_length is None else found


def _of_known_parts(
    unsized: MemoryEstimate, facts: dict[str, Fact], run: RunSpec, parallel: ParallelDims, device: Device
) -> MemoryEstimate:
    """What is certain where the size of some layers is not known: the others take what they take."""
    known = facts.get("model.parameters_at_least")
    if known is None:
        return unsized
    trained = facts.get("model.trainable_parameters_at_least", Fact())
    parts = ModelSpec(family="other", parameters=known.value)
    told = facts | {"model.trainable_parameters": trained}
    run = msgspec.structs.replace(run, trainable_parameters=trained.value)
    reason = f"{unsized.reason}; the other layers have {known.value:,} parameters"
    return _at_least(msgspec.structs.replace(unsized, reason=reason), told, parts, run, parallel, device)


def _of_any_precision(
    facts: dict[str, Fact], model: ModelSpec, run: RunSpec, parallel: ParallelDims, device: Device
) -> MemoryEstimate | None:
    """The memory where only that is not known whether mixed precision is on, and the run fits either way; else None.

    Weights that are loaded in half precision take less than either: the figure is an upper bound.
    """
    if facts["precision"].known or not (facts["precision"].reason or "").startswith("whether "):
        return None
    either = [
        _sized(
            facts | {"precision": Fact(precision)},
            model,
            msgspec.structs.replace(run, precision=precision),
            parallel,
            device,
        )
        for precision in ("fp32", "autocast-bf16")
    ]
    if any(one.fits != "yes" or one.peak_bytes is None for one in either):
        return None
    most = max(either, key=lambda one: one.peak_bytes.mid if one.peak_bytes is not None else 0.0)
    return msgspec.structs.replace(most, assumed=ANY_PRECISION)


def _some_frozen(facts: dict[str, Fact], run: RunSpec) -> bool:
    """Whether some parameters may get no gradient, and nobody knows how many."""
    return run.finetune == "full" and not facts["model.trainable_parameters"].known


def _within_bounds(
    found: MemoryEstimate,
    facts: dict[str, Fact],
    model: ModelSpec,
    run: RunSpec,
    parallel: ParallelDims,
    device: Device,
) -> MemoryEstimate:
    """Let a figure that is an upper bound decide only what it can: that a run fits; that none fits is for the lower bound.

    Upper bounds are the figures of a run of which nobody knows how many parameters it trains, and of networks that are
    trained in turn, whose activations are added up although some are free before others are made.
    """
    from preflight.cost.memory import estimate_memory

    frozen, several = _some_frozen(facts, run), model.networks > 1 and model.activation_elements is not None
    if not frozen and not several:
        return found
    if found.fits == "no":
        least_model, least_run = model, run
        if several:
            names = ("activation_elements", "entropy_elements", "compared_elements")
            parts = {name: (getattr(model, name) or 0.0) / model.networks for name in names}
            least_model = msgspec.structs.replace(model, **parts)
        if frozen:  # what autograd keeps depends on which are trained: only the weights are sure
            least_run = msgspec.structs.replace(run, trainable_parameters=0, micro_batch=None)
        least = estimate_memory(least_model, least_run, parallel, device.gpu, device.capacity_bytes)
        if least.fits == "no":
            return least if frozen else msgspec.structs.replace(found, oom=least.oom)
    assumed = ALL_TRAINED if frozen else found.assumed
    if frozen:
        found = _down_to_nothing_trained(found, model, run, parallel, device)
    if found.fits != "no":
        return msgspec.structs.replace(found, assumed=assumed)
    reason = (
        "how many parameters are trained is not known; with all of them it would not fit"
        if frozen
        else "how much of the networks' activations is alive at once is not known; all together would not fit"
    )
    return msgspec.structs.replace(found, fits="unknown", p_fit=None, oom=None, reason=reason, assumed=assumed)


def _down_to_nothing_trained(
    found: MemoryEstimate, model: ModelSpec, run: RunSpec, parallel: ParallelDims, device: Device
) -> MemoryEstimate:
    """Let the intervals of a figure for a run that trains all reach down to one that trains nothing: its own lies between."""
    from preflight.cost.memory import estimate_memory

    nothing = msgspec.structs.replace(run, finetune="frozen", trainable_parameters=0)
    least = estimate_memory(model, nothing, parallel, device.gpu, device.capacity_bytes)
    changes: dict[str, object] = {}
    for name in ("peak_bytes", "reserved_bytes", "device_bytes"):
        most, fewest = getattr(found, name), getattr(least, name)
        if most is not None and fewest is not None:
            changes[name] = msgspec.structs.replace(most, low=min(most.low, fewest.low))
    words = "how many parameters are trained is not known: the interval reaches down to a run that trains none"
    return msgspec.structs.replace(found, how=(*found.how, words), **changes)


def _at_least(
    found: MemoryEstimate,
    facts: dict[str, Fact],
    model: ModelSpec,
    run: RunSpec,
    parallel: ParallelDims,
    device: Device,
) -> MemoryEstimate:
    """What is certain where the peak is not known: parameters, and gradients and optimizer states of those that are trained.

    A precision that is not known takes two bytes a number at least, and an optimizer that is not known nothing.
    """
    from preflight.cost.memory import estimate_memory
    from preflight.cost.optimizers import optimizer_state

    changes: dict[str, object] = {"micro_batch": None}
    if not facts["precision"].known:
        changes["precision"] = "pure-bf16"
    if _some_frozen(facts, run):
        changes["trainable_parameters"] = 0
    least = estimate_memory(model, msgspec.structs.replace(run, **changes), parallel, device.gpu, device.capacity_bytes)
    if least.least_bytes is None:
        return found
    parts = (
        "parameters"
        if _some_frozen(facts, run)
        else "parameters, gradients and optimizer states"
        if run.optimizer is not None and optimizer_state(run.optimizer, run.optimizer_momentum) is not None
        else "parameters and gradients"
    )
    exact = facts["precision"].known and not _some_frozen(facts, run)
    exact = exact and facts["model.parameters"].known
    said = f"{parts} need {'' if exact else 'at least '}{format_bytes(least.least_bytes)}"
    capacity = device.capacity_bytes
    if capacity is not None and least.least_bytes <= capacity:
        said += f", which leaves {format_bytes(capacity - least.least_bytes)} for the rest"
    reason = f"{found.reason}; {said}" if found.reason else said
    fits, oom = ("no", least.oom) if least.fits == "no" else ("unknown", None)
    return msgspec.structs.replace(
        found, fits=fits, oom=oom, p_fit=least.p_fit, reason=reason, least_bytes=least.least_bytes, how=least.how
    )


def _of_any_image(
    found: MemoryEstimate, model: ModelSpec, run: RunSpec, parallel: ParallelDims, device: Device
) -> MemoryEstimate:
    """What can be said where nothing tells how large the images are: how large they may be."""
    if found.peak_bytes is not None or found.fits == "no" or not model.image_size:
        return found
    most = _most(model, run, parallel, device, "image_size")
    return (
        msgspec.structs.replace(found, reason=f"{found.reason}; up to {most:,} x {most:,} pixels fit")
        if most
        else found
    )


def _of_any_length(
    found: MemoryEstimate, model: ModelSpec, run: RunSpec, parallel: ParallelDims, device: Device
) -> MemoryEstimate:
    """What can be said where nothing tells how long the sequences are: how long they may be.

    Where the longest that the model has positions for fits, all do.
    """
    from preflight.cost.memory import estimate_memory

    if found.peak_bytes is not None or found.fits == "no":
        return found
    most = _most(model, run, parallel, device, "sequence_length")
    if not most:
        return found
    longest = model.max_positions if model.learned_positions else None
    if longest is not None and most >= longest:
        taken = msgspec.structs.replace(run, sequence_length=longest)
        whole = estimate_memory(model, taken, parallel, device.gpu, device.capacity_bytes)
        if whole.fits == "yes":
            return msgspec.structs.replace(whole, assumed=f"the longest input that the model takes, {longest:,} tokens")
    return msgspec.structs.replace(found, reason=f"{found.reason}; up to {most:,} tokens a sample fit")


_LONGEST_SEARCH = 1 << 30


def _most(model: ModelSpec, run: RunSpec, parallel: ParallelDims, device: Device, field: str) -> int | None:
    """Return the largest batch, or length, that surely fits, to two digits; None where even one does not, or more is unknown."""
    from preflight.cost.memory import estimate_memory

    def fits(number: int) -> bool:
        asked = msgspec.structs.replace(run, **{field: number})
        return estimate_memory(model, asked, parallel, device.gpu, device.capacity_bytes).fits == "yes"

    if device.capacity_bytes is None or not fits(1):
        return None
    low, high = 1, 2
    while high < _LONGEST_SEARCH and fits(high):
        low, high = high, 2 * high
    if high >= _LONGEST_SEARCH:
        return None  # nothing of it grows with what was asked for
    while high - low > max(low // 100, 1):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    digits = int(10 ** max(len(str(low)) - 2, 0))
    return low // digits * digits


def _over_schedule(model: ModelSpec, run: RunSpec, parallel: ParallelDims, device: Device) -> MemoryEstimate:
    """The memory of a run whose sequences change their length at known steps: the first stage that does not fit decides."""
    from preflight.cost.memory import estimate_memory

    timeline: list[TimelinePoint] = []
    worst: MemoryEstimate | None = None
    for first_step, tokens in run.length_schedule:
        stage = estimate_memory(
            model, msgspec.structs.replace(run, sequence_length=tokens), parallel, device.gpu, device.capacity_bytes
        )
        # Step 0 of a later stage has its optimizer states already: its peaks are those of the steady step.
        points = [p for p in stage.timeline if first_step == 0 or p.step > 0]
        timeline += [
            msgspec.structs.replace(p, step=p.step if first_step == 0 else first_step + p.step - 1) for p in points
        ]
        oom = stage.oom
        if oom is not None and first_step:
            oom = msgspec.structs.replace(
                oom, step=first_step, arithmetic=f"{tokens} tokens a sample from step {first_step} on: {oom.arithmetic}"
            )
        if (
            worst is None
            or stage.peak_bytes is None
            or (worst.peak_bytes is not None and stage.peak_bytes.mid > worst.peak_bytes.mid)
        ):
            worst = msgspec.structs.replace(stage, oom=oom)
        if stage.fits == "no":
            break
    assert worst is not None
    return msgspec.structs.replace(worst, timeline=tuple(timeline))
