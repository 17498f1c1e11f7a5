"""What a network keeps of one sample for its backward pass: by the shapes of its input that are known, or that can be."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from preflight.check.beside import calls_without_gradients, only_run
from preflight.check.forward.entry import channels_of, entries
from preflight.check.forward.follow import Forward
from preflight.check.forward.network_calls import calls_of
from preflight.source.evaluate.drawings import drawing_of
from preflight.source.frozen import frozen_layers
from preflight.source.layers import Network
from preflight.source.reading import Reading
from preflight.source.trace import Event
from preflight.source.values import Obj
from preflight.vocabulary.fact import Fact
from preflight.vocabulary.model import ModelSpec

_USUAL = (28, 32, 48, 64, 84, 96, 112, 128, 160, 192, 224, 256, 299, 320, 384, 448, 512)
"""Sides of images that networks are made for."""


def partly_frozen(reading: Reading, model: Obj) -> Network | None:
    """Return the layers of a known network of a library, where the script freezes some of them."""
    if drawing_of(reading.machine, model) is None:
        return None
    network = Network(reading, model)
    return network if frozen_layers(reading, network).leaves else None


def _surely_frozen(reading: Reading, network: Network) -> frozenset[int]:
    """The layers that get no gradient all through; none where some of them may be thawed again."""
    found = frozen_layers(reading, network)
    return found.leaves if found.certain else frozenset()


def with_activations(reading: Reading, facts: dict[str, Fact], spec: ModelSpec, network: Network) -> ModelSpec:
    """Return the architecture with what it keeps for one sample, where its shapes can be followed; else where they cannot."""
    model = reading.models[0]
    batch, size = facts["batch.micro"].value, facts["image_size"].value
    calls = calls_of(reading, model)
    given = calls[0].input if calls else None
    reason = None
    frozen = _surely_frozen(reading, network)
    samples, casts = batch if isinstance(batch, int) and batch > 0 else 1, _casts(facts)
    ahead = _ahead(reading, facts, samples)
    made = ahead.tensor(given) if ahead is not None and given is not None else None
    for entry in [made.shape[1:]] if made is not None else entries(reading, facts, network, given):
        flow = Forward(reading, calls, entry, samples, frozen, ahead if made is not None else None, casts)
        if flow.kept is not None:
            image = size if isinstance(size, int) and size in entry[1:] else None
            return _with_kept(spec, flow, samples, image)
        reason = reason or flow.reason
    if reason is None and not isinstance(size, int) and (channels := channels_of(network)) is not None:
        return _of_usual_images(spec, list(_usual(reading, calls, channels, samples, frozen, casts)), samples)
    known = spec.activation_reason or reason  # what the layers alone do not tell says more than where a chain breaks
    return msgspec.structs.replace(spec, activation_reason=known or "the shape of the model's input is not known")


def together(
    reading: Reading, facts: dict[str, Fact], spec: ModelSpec, networks: list[tuple[Obj, Network]]
) -> ModelSpec:
    """Return what several networks keep that are trained side by side, each called as it is until its first backward pass.

    One may be given what another makes. Some of it is free again before the rest is made: the sum is an upper bound.
    """
    batch, size = facts["batch.micro"].value, facts["image_size"].value
    samples = batch if isinstance(batch, int) and batch > 0 else 1
    left, flow, reason, image = list(networks), None, None, None
    while left:
        for place, (model, network) in enumerate(left):
            found, reason = _next(reading, facts, model, network, samples, flow)
            if found is not None:
                flow, image = found, image or (size if isinstance(size, int) and channels_of(network) else None)
                del left[place]
                break
        else:
            return msgspec.structs.replace(spec, activation_reason=reason)
    assert flow is not None
    assert flow.kept is not None
    return _with_kept(spec, flow, samples, image)


def _with_kept(spec: ModelSpec, flow: Forward, samples: int, image: int | None) -> ModelSpec:
    """Return the architecture with what was found for one sample."""
    kept = (flow.kept or 0.0) / samples
    entropies, compared = flow.entropies / samples, flow.compared / samples
    return msgspec.structs.replace(
        spec, activation_elements=kept, image_size=image, entropy_elements=entropies, compared_elements=compared
    )


def _casts(facts: dict[str, Fact]) -> bool:
    """Whether the training runs under autocast."""
    precision = facts.get("precision")
    return precision is not None and str(precision.value or "").startswith(("autocast", "amp"))


def _ahead(reading: Reading, facts: dict[str, Fact], samples: int) -> Forward | None:
    """Follow the networks that only run, as far as they can be followed: what is trained may be given what they make."""
    flow = None
    for model in only_run(reading):
        network = Network(reading, model)
        calls = calls_without_gradients(reading, model)
        for entry in entries(reading, facts, network, calls[0].input if calls else None):
            tried = Forward(reading, calls, entry, samples, earlier=flow, casts=_casts(facts))
            if tried.kept is not None:
                flow = tried
                break
    return flow


def _next(
    reading: Reading,
    facts: dict[str, Fact],
    model: Obj,
    network: Network,
    samples: int,
    earlier: Forward | None,
) -> tuple[Forward | None, str | None]:
    """Follow one more network behind those that were followed; returns that, or where it broke."""
    calls = calls_of(reading, model)
    given = [value for call in calls if (value := call.input) is not None]
    made = [tensor for value in given if earlier is not None and (tensor := earlier.tensor(value)) is not None]
    shapes = [made[0].shape[1:]] if made else entries(reading, facts, network, given[0] if given else None)
    reason = None
    for entry in shapes:
        frozen = _surely_frozen(reading, network)
        flow = Forward(reading, calls, entry, samples, frozen, earlier, _casts(facts))
        if flow.kept is not None:
            return flow, None
        reason = reason or flow.reason
    return None, reason or "the shape of the input of one of the networks is not known"


def _usual(
    reading: Reading, calls: list[Event], channels: int, samples: int, frozen: frozenset[int], casts: bool
) -> Iterator[tuple[int, Forward]]:
    """The usual sides of images that the layers take, and how the network was followed with each."""
    for side in _USUAL:
        flow = Forward(reading, calls, (channels, side, side), samples, frozen, casts=casts)
        if flow.kept is not None and flow.rows in (None, samples):
            yield side, flow


def _of_usual_images(spec: ModelSpec, found: list[tuple[int, Forward]], samples: int) -> ModelSpec:
    """Where only one usual size fits the layers, images have it; where many do, what is kept grows with the area."""
    if not found:
        return msgspec.structs.replace(spec, activation_reason="the shape of the model's input is not known")
    side, flow = found[-1]
    if len(found) > 1:
        return _with_kept(spec, flow, samples, side)
    only = f"images of {side} x {side}, the only usual size that the layers take"
    return msgspec.structs.replace(_with_kept(spec, flow, samples, None), activation_assumed=only)
