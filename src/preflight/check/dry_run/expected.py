"""What a dry run saw, as invariants that `preflight monitor` holds a real run against."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.vocabulary import prediction
from preflight.vocabulary.invariant import Invariant, Provenance
from preflight.vocabulary.profile import Profile

_WHOLE = ("ended", "stopped", "exited")


def expectations(profile: Profile, script: str) -> list[Invariant]:
    """Return what a run of the script should show.

    Args:
        profile: What the dry run saw.
        script: The script.
    """
    source = Provenance(
        origin="prediction", runs=(script,), torch=(profile.torch,) if profile.torch else (), note="a dry run"
    )
    return [
        *_parameters(profile, source),
        *_trained(profile, source),
        *_rates(profile, source),
        *_memory(profile, source),
    ]


def _parameters(profile: Profile, source: Provenance) -> Iterator[Invariant]:
    """Each parameter of a network that learned or was run: names may come in several networks, with a value each."""
    found: dict[str, set[str]] = {}
    for one in profile.parameters:
        if one.network is not None:
            told = prediction.parameter(one.dtype, one.shape, one.trainable and bool(one.optimizers))
            found.setdefault(prediction.plain_name(one.name), set()).add(told)
    for name, values in found.items():
        several = {"values": sorted(values)} if len(values) > 1 else {"value": next(iter(values))}
        subject = {"parameter": name, **several}
        yield Invariant(
            id=f"predicted-{name}", relation=prediction.PARAMETERS, subject=subject, source=source,
            text=prediction.of_parameter(subject), severity="warning", support=1,
        )  # fmt: skip


def _trained(profile: Profile, source: Provenance) -> Iterator[Invariant]:
    """All that each optimizer trains: a parameter that only one of the two runs has is not found by its name."""
    shapes: dict[int, list[tuple[int, ...]]] = {}
    for one in profile.parameters:
        for number in one.optimizers if one.trainable else ():
            shapes.setdefault(number, []).append(one.shape)
    for number, held in sorted(shapes.items()):
        subject = {"optimizer": number, "value": prediction.trained(held)}
        yield Invariant(
            id=f"predicted-trained-{number}", relation=prediction.TRAINED, subject=subject, source=source,
            text=prediction.of_trained(subject), severity="warning", support=1,
        )  # fmt: skip


def _rates(profile: Profile, source: Provenance) -> Iterator[Invariant]:
    """The learning rates of each step of each optimizer."""
    steps: dict[int, int] = {}
    for one in profile.observations:
        number, rates = one.data.get("optimizer"), one.data.get("rates")
        if one.what != "optimizer step" or not isinstance(number, int) or number < 0:
            continue
        step = steps[number] = steps.get(number, -1) + 1
        if rates:
            subject = {"optimizer": number, "step": step, "value": prediction.rates(rates)}
            yield Invariant(
                id=f"predicted-rate-{number}-{step}", relation=prediction.RATES, subject=subject, source=source,
                text=prediction.of_rate(subject), severity="warning", support=1,
            )  # fmt: skip


def _memory(profile: Profile, source: Provenance) -> Iterator[Invariant]:
    """The highest number of allocated bytes until each step, and where the run was seen whole, from there on."""
    if profile.steps < 1 or not profile.timeline:
        return
    # What comes after the last whole step belongs to it: a loop that was cut goes on, and evaluations come when it ends.
    onward = profile.outcome in _WHOLE and profile.steps > 1 and not profile.growth
    places = range(profile.steps + 1) if onward else range(profile.steps)
    highest = [_peak(profile, None if place == profile.steps else place) for place in places]
    lowest = [_peak(profile, place - 1, training=True) if place else 0 for place in places]
    subject = {
        "highest": highest, "lowest": lowest, "onward": onward, "rank": None if _alike(profile) else profile.loaded
    }  # fmt: skip
    yield Invariant(
        id="predicted-memory", relation=prediction.MEMORY, subject=subject, source=source,
        text=prediction.of_memory(subject), severity="warning", support=1,
    )  # fmt: skip


def _peak(profile: Profile, last: int | None, training: bool = False) -> int:
    """The most that was allocated until the end of a step, of the run where none is named."""
    moments = (
        one.allocated for one in profile.timeline
        if (last is None or one.step <= last) and not (training and one.phase == "eval")
    )  # fmt: skip
    return max(moments, default=0)


def _alike(profile: Profile) -> bool:
    """Whether the ranks that were run need the same: the lower bounds are those of the most loaded."""
    peaks = [one.peak_bytes for one in profile.ranks if one.steps]
    return not peaks or max(peaks) - min(peaks) <= prediction.SHARE * max(peaks)
