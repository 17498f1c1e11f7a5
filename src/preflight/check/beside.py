"""Networks that only run: beside the one that is trained they make its input, or its target, and record no gradients."""

from __future__ import annotations

from preflight.check.queries.parameters import parts_of
from preflight.check.queries.tensors import grad_off
from preflight.source.architecture import architecture_of
from preflight.source.evaluate.library.torch import wrapped
from preflight.source.facts.telling import place_of
from preflight.source.reading import Reading
from preflight.source.trace import Event
from preflight.source.values import Obj
from preflight.vocabulary.fact import Fact


def only_run(reading: Reading) -> list[Obj]:
    """Return the networks that the first training loop calls without gradients alone, in the order of their calls.

    What is a part of a network that is trained, or holds one, is none of them.
    """
    known: list[Obj] | None = reading.__dict__.get("_only_run")
    if known is None:
        known = reading.__dict__["_only_run"] = _found(reading)
    return known


def _found(reading: Reading) -> list[Obj]:
    trained = [inner for model in reading.models if (inner := wrapped(model)) is not None]
    passed = {i for model in trained if isinstance(model, Obj) for i in parts_of(model)}
    found: list[Obj] = []
    for loop in reading.loops[:1]:
        for event in loop.events:
            network = _called(reading, event)
            if network is None or id(network) in passed:
                continue
            inside = parts_of(network)
            passed |= inside.keys()
            if grad_off(event.context) and not any(id(model) in inside for model in trained):
                found.append(network)
    return found


def _called(reading: Reading, event: Event) -> Obj | None:
    if event.name != "()" or event.receiver is None or event.context.shadow:
        return None
    network = wrapped(event.receiver)
    is_model = isinstance(network, Obj) and reading.roles.of(network) == "model"
    return network if isinstance(network, Obj) and is_model else None


def calls_without_gradients(reading: Reading, network: Obj) -> list[Event]:
    """Return the calls of such a network in the first training loop."""
    return [
        event
        for loop in reading.loops[:1]
        for event in loop.events
        if event.name == "()" and wrapped(event.receiver) is network and not event.context.shadow
    ]


def beside(reading: Reading) -> dict[str, Fact]:
    """Tell how many parameters lie in memory of networks that only run; nothing where there are none or a size is not known."""
    networks = only_run(reading)
    total = 0
    for one in networks:
        spec, network = architecture_of(reading, one)
        count = spec.parameters if spec is not None else network.total if network is not None else None
        if count is None:
            return {}
        total += count
    if not total:
        return {}
    names = ", ".join(dict.fromkeys(one.cls.qualname if one.cls is not None else one.name for one in networks))
    return {"model.frozen_beside": Fact(total, place_of(networks[0]), f"{names}: called without gradients")}
