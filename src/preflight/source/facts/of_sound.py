"""How many tokens a network makes of sound: its samples, divided by the strides of the convolutions that read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.architecture import architecture_of
from preflight.source.facts.telling import place_of, unknown
from preflight.source.tensor_shapes import shape_of
from preflight.source.values import Value, plain
from preflight.vocabulary.fact import Fact

if TYPE_CHECKING:
    from preflight.source.reading import Reading


def of_sound(reading: Reading) -> dict[str, Fact] | None:
    """The length of what a network on raw sound works on, known or not; None for other networks.

    Its labels, and what a tokenizer makes of them, have lengths of their own, which say nothing of it.
    """
    spec = architecture_of(reading, reading.models[0])[0] if reading.models else None
    stride = spec.samples_per_token if spec is not None else None
    if not stride:
        return None
    found = _given(reading) or _cut(reading)
    if found is None:
        return {"sequence_length": unknown("how many samples of sound the network is given was not recognised")}
    samples, value = found
    how = f"{samples:,} samples, of which {stride} make a token"
    return {"sequence_length": Fact(max(samples // stride, 1), place_of(value), how)}


def _given(reading: Reading) -> tuple[int, Value] | None:
    """The samples of the tensor that the training loop gives to the network."""
    for event in (event for loop in reading.loops[:1] for event in loop.events):
        if event.name == "()" and not event.context.shadow and reading.roles.of(event.receiver) == "model":
            value = event.kwargs.get("input_values") or (event.args[0] if event.args else None)
            shape = shape_of(value)
            if value is not None and shape is not None and len(shape) == 2:
                return shape[1], value
    return None


def _cut(reading: Reading) -> tuple[int, Value] | None:
    """The samples that a feature extractor cuts or fills its recordings to."""
    for event in reading.trace.calls("()", ".__call__", "?"):
        longest = event.kwargs.get("max_length")
        samples = plain(longest)
        if "sampling_rate" in event.kwargs and longest is not None and isinstance(samples, int) and samples > 0:
            return samples, longest
    return None
