"""What a dry run saw of the updates: the steps of one optimizer, and the gradients that each of them found."""

from __future__ import annotations

from preflight.check.run import Run
from preflight.vocabulary.profile import Observation, OptimizerSeen, ParameterSeen


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
