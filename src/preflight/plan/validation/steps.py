"""Published throughput as measured steps: seconds of an optimizer step beside what was run."""

from __future__ import annotations

from collections import Counter

import msgspec

from preflight.catalog.measured import Row, measured_rows
from preflight.cost.flops import flops_per_sample
from preflight.cost.machine import machine_of
from preflight.cost.networks.spread import step_is_known
from preflight.cost.parameters import count_parameters
from preflight.errors import PreflightError
from preflight.plan.calibration.sample import Sample
from preflight.plan.validation.expressed import CannotExpress, Expressed
from preflight.plan.validation.sources import express_time

# The table of everybody's throughput, and tables that one source fills alone.
TABLES = ("throughput", "vtrain_a100_singlenode", "vtrain_a100_multinode")


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Measured steps of the shipped tables.

    Attributes:
        samples: The steps; ``group`` is the model they must be left out with.
        sources: The source of each.
        refused: Rows that cannot be expressed, by source and reason.
        total: Rows of the tables.
    """

    samples: tuple[Sample, ...]
    sources: tuple[str, ...]
    refused: tuple[tuple[str, str, int], ...]
    total: int


def measured_steps(tables: tuple[str, ...] = TABLES, folder: str | None = None) -> Measured:
    """Return every published step that its source describes well enough."""
    samples: list[Sample] = []
    sources: list[str] = []
    refused: Counter[tuple[str, str]] = Counter()
    total = 0
    for table in tables:
        for row in measured_rows(table, folder):
            total += 1
            try:
                samples.append(sample_of(row))
                sources.append(row["source"])
            except CannotExpress as reason:
                refused[row["source"], str(reason)] += 1
    left = tuple((source, reason, rows) for (source, reason), rows in sorted(refused.items()))
    return Measured(samples=tuple(samples), sources=tuple(sources), refused=left, total=total)


def sample_of(row: Row) -> Sample:
    """Return a row as a measured step.

    Raises:
        CannotExpress: The source says too little, or the model of time has no word for it.
    """
    if row.get("primary", "1") != "1":
        raise CannotExpress("the same configuration in another release")
    try:
        found = express_time(row)
    except (KeyError, PreflightError) as error:
        raise CannotExpress(f"not stated: {error}") from None
    if found.cluster is None:
        raise CannotExpress("GPU not in the catalog")
    model, run, parallel = found.model, found.run, found.parallel
    if not step_is_known(model) or count_parameters(model) is None:
        raise CannotExpress("no formula for the arithmetic of this architecture")
    if run.variable_length:
        raise CannotExpress("lengths vary and their mean is not stated")
    if not run.micro_batch:
        raise CannotExpress("batch not stated")
    if machine_of(found.cluster, run) is None:
        raise CannotExpress("the GPU's peak in the type of the run is not known")
    if run.global_batch is None:
        ranks = parallel.dp_replicate * parallel.dp_shard
        run = msgspec.structs.replace(run, global_batch=run.micro_batch * ranks * run.gradient_accumulation)
    seconds = seconds_of(row, msgspec.structs.replace(found, run=run))
    name = model.name or row.get("model") or f"{model.layers} x {model.hidden}"
    return Sample(
        model=model, run=run, parallel=parallel, cluster=found.cluster, seconds=seconds, group=name, name=row["id"]
    )


def seconds_of(row: Row, found: Expressed) -> float:
    """Return the measured seconds of a step from what the source states.

    Raises:
        CannotExpress: It states nothing from which they follow.
    """
    if "iteration time (ms)" in row:
        return float(row["iteration time (ms)"]) / 1e3
    whole, length = found.run.global_batch or 0, found.run.sequence_length or 0
    if row["step_time_s"]:
        return float(row["step_time_s"])
    if "not stated whether per GPU" in row["throughput_note"] and int(row["num_gpus"]) > 1:
        raise CannotExpress("tokens per second of one GPU or of all is not stated")
    if row["tokens_per_s_per_gpu"] and length:
        return whole * length / (float(row["tokens_per_s_per_gpu"]) * int(row["num_gpus"]))
    if row["samples_per_s_total"]:
        return whole / float(row["samples_per_s_total"])
    if row["tflops_per_gpu"] and row["flops_kind"].startswith("hardware (paper formula"):
        # Narayanan et al. 2021 count 96 B s l h^2 (1 + s / 6h + V / 16lh): full attention, recomputation counted.
        work = flops_per_sample(found.model, length, causal=False, recompute="full")
        if work is not None:
            return whole * work.hardware / (float(row["tflops_per_gpu"]) * 1e12 * int(row["num_gpus"]))
    raise CannotExpress("no time, tokens or samples per second stated")
