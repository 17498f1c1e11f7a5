"""What a dry run saw, as invariants that `preflight monitor` holds a real run against."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.vocabulary import prediction
from preflight.vocabulary.invariant import Invariant, Provenance
from preflight.vocabulary.profile import Profile


def expectations(profile: Profile, script: str) -> list[Invariant]:
    """Return what a run of the script should show.

    Args:
        profile: What the dry run saw.
        script: The script.
    """
    source = Provenance(
        origin="prediction", runs=(script,), torch=(profile.torch,) if profile.torch else (), note="a dry run"
    )
    return [*_parameters(profile, source), *_rates(profile, source)]


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
