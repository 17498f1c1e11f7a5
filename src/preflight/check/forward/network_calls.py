"""Which events of a script are the calls of a network in one step, and what happens inside a call."""

from __future__ import annotations

from heapq import merge
from typing import TYPE_CHECKING

from preflight.check.queries.parameters import parts_of
from preflight.check.queries.tensors import grad_off
from preflight.source.trace import Event
from preflight.source.values import Obj, settle

if TYPE_CHECKING:
    from preflight.source.reading import Reading


def calls_of(reading: Reading, network: Obj) -> list[Event]:
    """The calls of a network in the first training loop, up to its backward pass, with gradients recorded."""
    for loop in reading.loops:
        found: list[Event] = []
        for event in loop.events:
            if event.name == ".backward" and found:
                break
            called = event.name == "()" and event.receiver is not None and settle(event.receiver) is network
            if called and not event.context.shadow and not grad_off(event.context):
                found.append(event)
        if found:
            return found
    inner = _inner_calls(reading, network)
    if inner:
        return inner
    named = (e for e in reading.trace.calls("()") if e.receiver is not None and settle(e.receiver) is network)
    first = next((e for e in named if not grad_off(e.context)), None)
    return [first] if first is not None else []


def _inner_calls(reading: Reading, network: Obj) -> list[Event]:
    """The calls of the one part that does the work of a network which is not called itself: ``model.loss(x)`` calls it."""
    parts = parts_of(network)
    for loop in reading.loops[:1]:
        found: list[Event] = []
        for event in loop.events:
            if event.name == ".backward" and found:
                break
            part = settle(event.receiver) if event.name == "()" and event.receiver is not None else None
            if not isinstance(part, Obj) or id(part) not in parts or part.cls is None or part is network:
                continue
            within = any(event.context.within(one.context) and _is_inside(event, one) for one in found)
            if not within and not event.context.shadow and not grad_off(event.context):
                found.append(event)
        if len({id(settle(one.receiver)) for one in found if one.receiver is not None}) == 1:
            return found
    return []


def _is_inside(event: Event, call: Event) -> bool:
    """Whether an event happens in the course of a call."""
    return any(frame.kind == "call" and frame.node is call.node for frame in event.context.frames())


def inside(reading: Reading, begin: Event) -> list[Event]:
    """The events inside a call, in order."""
    found: list[Event] = []
    depth = begin.context.depth
    for event in merge(reading.trace.events, reading.trace.drawn, key=lambda event: event.number):
        if event.number <= begin.number:
            continue
        inside = event.context.depth > depth and any(f is begin.context for f in event.context.frames())
        called = inside and any(f.kind == "call" and f.node is begin.node for f in event.context.frames())
        if not called and event.number > begin.number + 1 and event.node is not begin.node:
            break
        found.append(event)
    return found
