"""What a constraint is: a sentence, a page, a predicate over columns, the reason for one layout, examples.

A constraint is one file ``constraints/NAME.py``. It holds

* the docstring: the page. Its first line is the title;
* ``CONSTRAINT = Constraint(...)``: the declaration;
* ``holds(layout)``: whether the layout may be, element by element where its degrees are columns;
* ``reason(layout)``: for one layout that may not be, why, with its numbers;
* ``hint(layout)``: the nearest choice that may be, or None;
* ``GOOD`` and ``BAD``: tuples of ``Example``, which are run as tests.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Literal

import msgspec

from preflight.listing import modules_beside
from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """A way to run and spread a model; degrees and batches are numbers or columns."""

    model: ModelSpec
    run: RunSpec
    parallel: ParallelDims
    cluster: Cluster

    @property
    def data(self) -> Any:
        """Data-parallel ranks."""
        return self.parallel.dp_replicate * self.parallel.dp_shard

    @property
    def micro_batches(self) -> Any:
        """Micro-batches of a step on one rank, a fraction where the batch cannot be divided."""
        run = self.run
        batch = 1 if run.global_batch is None else run.global_batch
        return batch / (self.data * (1 if run.micro_batch is None else run.micro_batch))


class Constraint(msgspec.Struct, frozen=True, kw_only=True):
    """The declaration of a constraint.

    Attributes:
        name: Kebab case, what is wrong: ``heads-not-divisible``.
        sentence: What must hold, in one sentence.
        kind: ``impossible``: no framework runs it, and a plan that asks for it is an error. ``unwise``: it would run, but
            nobody would want it, or its time is not known well; only a search leaves it out.
        looks_at: ``degrees`` and batches alone, or also at how the ``run`` recomputes and computes.
    """

    name: str
    sentence: str
    kind: Literal["impossible", "unwise"] = "impossible"
    looks_at: Literal["degrees", "run"] = "degrees"


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """A layout that may or may not be; what is not said is that of a small decoder on eight GPUs."""

    model: dict[str, Any] = {}
    run: dict[str, Any] = {}
    parallel: dict[str, Any] = {}
    gpus_per_node: int = 8


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A constraint as its file has it."""

    constraint: Constraint
    holds: Callable[[Layout], Any]
    reason: Callable[[Layout], str]
    hint: Callable[[Layout], str | None]
    module: str


@lru_cache(maxsize=1)
def load_constraints() -> tuple[Loaded, ...]:
    """Return the shipped constraints: those whose files are there, in the order of their names."""
    return tuple(
        Loaded(constraint=m.CONSTRAINT, holds=m.holds, reason=m.reason, hint=m.hint, module=m.__name__)
        for m in _modules()
    )


def _modules() -> Iterator[Any]:
    """Return the modules of the folder beside this file."""
    for name in modules_beside(__file__, "constraints"):
        yield importlib.import_module(f"preflight.plan.constraints.{name}")


def violated(layout: Layout, kinds: tuple[str, ...] = ("impossible",)) -> Loaded | None:
    """Return the first constraint of these kinds that a single layout violates, or None."""
    for loaded in load_constraints():
        if loaded.constraint.kind in kinds and not loaded.holds(layout):
            return loaded
    return None


def nearest_divisor(number: int, wanted: float) -> int:
    """Return the divisor of ``number`` that is nearest to ``wanted``."""
    return min((value for value in range(1, number + 1) if number % value == 0), key=lambda value: abs(value - wanted))


def nearest_degree(layout: Layout, whole: int, wanted: float) -> int:
    """Return the degree nearest to ``wanted`` that divides ``whole`` and the number of GPUs."""
    return nearest_divisor(math.gcd(whole, layout.cluster.num_gpus), wanted)
