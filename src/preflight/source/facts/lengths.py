"""Lengths that change with the step, and where a loop cuts what it gives to the network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.facts.telling import place_of
from preflight.source.trace import Event, parents_of
from preflight.source.values import Choice, Known, Obj, Seq, Unknown, Value, plain, settle
from preflight.vocabulary.finding import Location

if TYPE_CHECKING:
    from preflight.source.reading import Reading

# A batch is cut a few operations before the network is called; what lies further back is how the data was made.
_NEAR = 40
# Layers of torch that look tokens up, or may hold what does; of others, a model is only a part.
_MAY_EMBED = frozenset(f"torch.nn.{n}" for n in ("Embedding", "EmbeddingBag", "Sequential", "ModuleList", "ModuleDict"))


def schedule_of(value: Value | None) -> list[tuple[int, int]]:
    """The stages of a number that changes with the step: ``256 if step <= 1000 else 2048``.

    Returns:
        (first step, number) in order of the steps; empty when it is not of this form.
    """
    if not isinstance(value, Choice) or len(value.options) != 2:
        return []
    first, second = (plain(option) for option in value.options)
    if not all(isinstance(n, int) and not isinstance(n, bool) for n in (first, second)):
        return []
    change = _change(value.test)
    if change is None:
        return []
    step, holds_before = change
    early, late = (first, second) if holds_before else (second, first)
    return [(0, early), (step, late)]


def _change(test: Value | None) -> tuple[int, bool] | None:
    """The step at which a test of the loop's index changes, and whether it holds before."""
    if not isinstance(test, Obj) or test.kind != "op" or len(test.args) != 2:
        return None
    index, bound = settle(test.args[0]), plain(test.args[1])
    counts = isinstance(index, Unknown) and isinstance(index.initial, Known) and index.initial.value == 0
    if not counts or not isinstance(bound, int) or isinstance(bound, bool):
        return None
    # step <= 1000 holds up to step 1000: it changes at step 1001.
    return {"<": (bound, True), "<=": (bound + 1, True), ">": (bound + 1, False), ">=": (bound, False)}.get(test.name)


def embeds(reading: Reading, event: Event) -> bool:
    """Whether the network looks its input up in a table, as tokens are: unless its layers are out of sight."""
    network = settle(event.receiver) if event.receiver is not None else None
    if not isinstance(network, Obj) or network.cls is None:
        layer = isinstance(network, Obj) and network.name.startswith("torch.nn.")
        return not layer or network.name in _MAY_EMBED  # type: ignore[union-attr]
    for inner in reading.trace.calls("()", "torch.nn.functional.embedding"):
        table = settle(inner.receiver) if inner.receiver is not None else None
        named = inner.name != "()" or (isinstance(table, Obj) and table.name == "torch.nn.Embedding")
        if named and inner.context.in_forward:
            return True
    return False


def length_of_cut(reading: Reading) -> tuple[list[tuple[int, int]], Location | None] | None:
    """The stages of the length to which the first training loop cuts its batches along their second dimension.

    Returns:
        The stages as (first step, length), and where the length is told; None where no such cut changes with the step.
    """
    for loop in reading.loops[:1]:
        for event in loop.events:
            if event.name != "()" or reading.roles.of(event.receiver) not in ("model", "lightning_module"):
                continue
            if event.context.in_forward or not embeds(reading, event):
                continue
            for value in (*event.args, *event.kwargs.values()):
                found = _cut(value)
                if found is not None:
                    return found
    return None


def _cut(value: Value) -> tuple[list[tuple[int, int]], Location | None] | None:
    """The nearest cut ``[:, :length]`` behind a value; a later ``[:, :-1]`` or ``[:, 1:]`` takes from it."""
    near, seen, taken = [value], {id(value)}, 0
    for part in near:  # grows while it is gone through
        for parent in parents_of(part) if len(near) < _NEAR else ():
            if id(parent) not in seen:
                seen.add(id(parent))
                near.append(parent)
        if not (isinstance(part, Seq) and part.kind == "tuple" and len(part.items) >= 2):
            continue
        second = settle(part.items[1])
        if not (isinstance(second, Obj) and second.kind == "op" and second.name == "slice" and len(second.args) == 3):
            continue
        low, high = plain(second.args[0], 0) or 0, second.args[1]
        stages = schedule_of(high)
        if stages and isinstance(low, int) and low >= 0:
            return [(step, length - low - taken) for step, length in stages], place_of(high)
        end = plain(high)
        if isinstance(end, int) and end < 0:
            taken -= end
        elif isinstance(low, int) and low > 0 and end is None:
            taken += low
    return None
