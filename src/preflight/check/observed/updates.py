"""What a dry run saw of the updates: the steps of one optimizer, and the gradients that each of them found."""

from __future__ import annotations

import ast

from preflight.check.observed.run import Run
from preflight.vocabulary.finding import Location
from preflight.vocabulary.seen import Observation, OptimizerSeen, ParameterSeen


def updates_of(run: Run, number: int) -> list[Observation]:
    """The steps of an optimizer, in order, with what each found in its gradients."""
    return [item for item in run.seen("update") if item.data["optimizer"] == number]


def plain_updates(run: Run) -> list[tuple[int, OptimizerSeen, list[Observation]]]:
    """Optimizers with two steps or more, all outside of backward passes, on gradients that backward passes made."""
    found = []
    for number, optimizer in enumerate(run.optimizers):
        steps = updates_of(run, number)
        if len(steps) > 1 and not any(item.data["inside"] or item.data["by_hand"] for item in steps):
            found.append((number, optimizer, steps))
    return found


def idle_clips(run: Run) -> list[tuple[OptimizerSeen, list[Observation], list[Observation]]]:
    """Optimizers whose clippings, two or more, never find a gradient that is still to be used; with these and the steps."""
    found = []
    for number, optimizer, steps in plain_updates(run):
        clips = [item for item in run.seen("clip") if number in item.data["optimizers"]]
        if len(clips) > 1 and not any(item.data["fresh"] for item in clips):
            found.append((optimizer, clips, steps))
    return found


def held_by(run: Run, number: int) -> list[ParameterSeen]:
    """The parameters of an optimizer."""
    return [parameter for parameter in run.profile.parameters if number in parameter.optimizers]


def elements(parameters: list[ParameterSeen]) -> int:
    """Elements of parameters."""
    total = 0
    for parameter in parameters:
        count = 1
        for size in parameter.shape:
            count *= size
        total += count
    return total


def named(parameters: list[ParameterSeen], most: int = 4) -> str:
    """The names of the first parameters, and how many more there are."""
    names = [parameter.name for parameter in parameters[:most]]
    more = len(parameters) - most
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def unreached(run: Run, method: str) -> bool:
    """Whether the script has a call of a method in a place that the run did not get to."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == method
        and run.reached(Location(path=script.path, line=node.lineno)) is not True
        for script in run.context.reading.scripts
        for node in ast.walk(script.tree)
    )
