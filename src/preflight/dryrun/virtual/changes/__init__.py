"""Changes that are made to a run from outside, to measure what they save: one module for each, found by its name.

A module has ``install(change, run)``. It says with ``change.did(...)`` what it really did, so that a change that found
nothing to do is not taken for one that saves nothing.
"""

from __future__ import annotations

import importlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from preflight.dryrun.virtual.absent.inputs import Inputs
from preflight.dryrun.virtual.engine.gpu import VirtualGpu


@dataclass
class Change:
    """A change and what came of it.

    Attributes:
        name: Name of its module.
        options: What was asked for.
        done: What was done, in words, with how often.
        refused: Why it could not be done.
    """

    name: str
    options: dict[str, Any]
    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)

    def did(self, what: str, times: int = 1) -> None:
        """Note that something was changed."""
        self.done[what] += times

    def cannot(self, why: str) -> None:
        """Note that something could not be changed."""
        self.refused[why] += 1

    def summary(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"name": self.name, "done": dict(self.done), "refused": list(self.refused)}


@dataclass(frozen=True)
class Run:
    """What a change may take hold of."""

    gpu: VirtualGpu
    inputs: Inputs


def install(wanted: list[dict[str, Any]], gpu: VirtualGpu, inputs: Inputs) -> list[Change]:
    """Make the changes that a job names.

    Args:
        wanted: The name of each change, under ``name``, and its options.
        gpu: The virtual GPU.
        inputs: The calls of top modules.
    """
    made = []
    for options in wanted:
        change = Change(options["name"], options)
        module = importlib.import_module(f"{__name__}.{change.name}")
        module.install(change, Run(gpu, inputs))
        made.append(change)
    return made
