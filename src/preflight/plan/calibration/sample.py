"""Measured steps, and their prediction as columns: rows that differ only in degrees and batches are evaluated together."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from preflight.cost.ledger import Ledger, ledger_of
from preflight.cost.machine import Coefficients, machine_of
from preflight.cost.networks.spread import known_step
from preflight.cost.optimizers import optimizer_state
from preflight.cost.parameters import count_parameters
from preflight.errors import UsageError
from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec
from preflight.vocabulary.step import StepBreakdown

_RUN = ("micro_batch", "global_batch", "gradient_accumulation")
_DIMS = ("dp_replicate", "dp_shard", "cp", "tp", "pp", "vp", "ep")


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One measured optimizer step.

    Attributes:
        seconds: What was measured.
        group: What rows must share to be left out together: a model, a cluster.
        name: Where it was read.
    """

    model: ModelSpec
    run: RunSpec
    parallel: ParallelDims
    cluster: Cluster
    seconds: float
    group: str = ""
    name: str = ""


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Samples that differ only in degrees and batches; ``rows`` says where each stands among all."""

    model: ModelSpec
    run: RunSpec
    parallel: ParallelDims
    cluster: Cluster
    rows: Any
    first: Ledger
    last: Ledger

    def seconds(self, coefficients: Coefficients) -> Any:
        """Return the predicted seconds of every sample."""
        return self.step(coefficients).total

    def step(self, coefficients: Coefficients) -> StepBreakdown:
        """Return the predicted seconds of every sample by cause.

        Raises:
            UsageError: The GPU's peak in the type of the run, or the arithmetic of the model, is not known.
        """
        machine = machine_of(self.cluster, self.run, coefficients)
        if machine is None:
            raise UsageError(f"the peak of {self.cluster.gpu.title} in the type of the run is not known")
        step = known_step(self.model, self.run, self.parallel, machine, self.first, self.last)
        if step is None:
            raise UsageError(f"the arithmetic of {self.model.name or 'the model'} is not known")
        return step


def blocks_of(samples: tuple[Sample, ...]) -> list[Block]:
    """Return samples gathered into columns.

    Raises:
        UsageError: The parameters of a model or the states of an optimizer are not known.
    """
    gathered: dict[tuple[Any, ...], list[int]] = {}
    for index, sample in enumerate(samples):
        cluster = msgspec.structs.replace(sample.cluster, num_gpus=1)
        run = msgspec.structs.replace(sample.run, **dict.fromkeys(_RUN[:2]), gradient_accumulation=1)
        dims = msgspec.structs.replace(sample.parallel, **dict.fromkeys(_DIMS, 1))
        key = tuple(msgspec.json.encode(part) for part in (sample.model, run, dims, cluster))
        gathered.setdefault(key, []).append(index)
    return [_block(samples, rows) for rows in gathered.values()]


def _block(samples: tuple[Sample, ...], rows: list[int]) -> Block:
    chosen = [samples[row] for row in rows]
    head = chosen[0]
    batches: dict[str, Any] = {
        name: np.array([float(getattr(sample.run, name) or 0) for sample in chosen]) for name in _RUN
    }
    degrees: dict[str, Any] = {
        name: np.array([float(getattr(sample.parallel, name)) for sample in chosen]) for name in _DIMS
    }
    if len(rows) == 1:
        # Numbers are ten times as quick as columns of one row.
        batches = {name: column.item() for name, column in batches.items()}
        degrees = {name: column.item() for name, column in degrees.items()}
    run = msgspec.structs.replace(head.run, **batches)
    parallel = msgspec.structs.replace(head.parallel, **degrees)
    count = count_parameters(head.model)
    optimizer = optimizer_state(run.optimizer or "", run.optimizer_momentum)
    if count is None or optimizer is None:
        raise UsageError(f"the parameters of {head.model.name or 'the model'} or the optimizer's states are not known")
    ends = [
        ledger_of(head.model, run, parallel, head.cluster.gpu, count, optimizer, at)
        for at in (0 * parallel.pp, parallel.pp - 1)
    ]
    return Block(
        model=head.model,
        run=run,
        parallel=parallel,
        cluster=head.cluster,
        rows=np.array(rows),
        first=ends[0],
        last=ends[1],
    )


def waiting(blocks: list[Block], coefficients: Coefficients, count: int) -> Any:
    """Return the share of every predicted step in which the GPU waits for the host."""
    shares = np.zeros(count)
    for block in blocks:
        step = block.step(coefficients)
        shares[block.rows] = step.host / step.total
    return shares


def predicted(blocks: list[Block], coefficients: Coefficients, count: int) -> Any:
    """Return the predicted seconds of all samples in their order."""
    seconds = np.zeros(count)
    for block in blocks:
        seconds[block.rows] = block.seconds(coefficients)
    return seconds
