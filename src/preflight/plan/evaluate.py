"""Memory and time of layouts: columns of a million, or one of them with everything that can be said."""

from __future__ import annotations

from typing import Any

import msgspec

from preflight.cost.fragmentation import reserved_share
from preflight.cost.ledger import Ledger, ledger_of, step_moments
from preflight.cost.machine import Coefficients, machine_of
from preflight.cost.networks.spread import known_step
from preflight.cost.numeric import larger, smaller
from preflight.cost.optimizers import optimizer_state
from preflight.cost.parameters import count_parameters
from preflight.cost.workspace import context_bytes
from preflight.errors import UsageError
from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec
from preflight.vocabulary.step import StepBreakdown


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of every layout; each field is a number or a column of them.

    Attributes:
        allocated: Bytes at the peak of the fullest stage.
        device: Bytes that the driver shows, mid value.
        step: Seconds of an optimizer step by cause; None where the architecture's arithmetic is not known.
    """

    allocated: Any
    device: Any
    step: StepBreakdown | None


def evaluate(
    model: ModelSpec,
    run: RunSpec,
    parallel: ParallelDims,
    cluster: Cluster,
    coefficients: Coefficients | None = None,
) -> Columns:
    """Return memory and time of layouts whose degrees and micro-batches may be columns of equal length.

    Raises:
        UsageError: The parameters of the model or the states of the optimizer are not known.
    """
    count = count_parameters(model)
    optimizer = optimizer_state(run.optimizer or "", run.optimizer_momentum)
    if count is None or optimizer is None:
        raise UsageError("the model's parameters or the optimizer's states are not known")
    first = ledger_of(model, run, parallel, cluster.gpu, count, optimizer, 0)
    last = ledger_of(model, run, parallel, cluster.gpu, count, optimizer, parallel.pp - 1)
    allocated = larger(peak_of(first), peak_of(last))
    if parallel.first_layers is not None or parallel.last_layers is not None:
        second = ledger_of(model, run, parallel, cluster.gpu, count, optimizer, smaller(1, parallel.pp - 1))
        allocated = larger(allocated, peak_of(second))
    held = allocated * (1 + reserved_share(run, model.experts).mid)
    device = held + context_bytes(cluster.gpu, parallel).mid
    machine = machine_of(cluster, run, coefficients)
    step = known_step(model, run, parallel, machine, first, last) if machine else None
    return Columns(allocated=allocated, device=device, step=step)


def peak_of(ledger: Ledger) -> float:
    """Return the allocated bytes at the peak of a run: of a later step, when states and lingering tensors exist."""
    return larger(*(moment.parts.total for moment in step_moments(ledger, 1)))
