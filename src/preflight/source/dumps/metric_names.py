"""What the columns of metric files are called here, and the rows they make."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from preflight.vocabulary.log import LogFile, StepLine, Who

STEPS = (
    "step",
    "global_step",
    "_step",
    "iteration",
    "iter",
    "steps",
    "train/global_step",
    "trainer/global_step",
    "train_step",
    "n_iter",
)
MOST = 1_000_000
"""Rows of a file of which all are kept; of more there is a sample, as of the steps of a log."""
EPOCHS = ("epoch", "epochs", "train/epoch")
TIMES = ("timestamp", "_timestamp", "wall_time", "walltime", "time_stamp", "datetime", "date", "created", "ts")

_SAME = {
    "loss": "loss train_loss training_loss lm_loss loss_train total_loss reduced_train_loss ce_loss cross_entropy_loss train_loss_step loss_step train_total_loss",
    "val_loss": "val_loss eval_loss valid_loss validation_loss test_loss dev_loss loss_val loss_eval",
    "grad_norm": "grad_norm gradient_norm global_grad_norm gradnorm total_norm grad_norm_total",
    "lr": "lr learning_rate lr_0 lr_group_0 lr_adamw lr_adam lr_sgd",
    "loss_scale": "loss_scale grad_scale scale amp_scale loss_scaler scaler",
    "seconds": "seconds step_time time_per_step iteration_time iter_time train_step_time batch_time step_seconds elapsed_time_per_iteration "
    "time_per_iteration sec_per_step seconds_per_step train_step_timing s_per_it",
    "tokens_per_second": "tokens_per_second tokens_per_sec tok_per_sec tokens_sec tok_s tps throughput_tokens_per_sec train_tokens_per_second tokens_s",
    "samples_per_second": "samples_per_second samples_per_sec images_per_second examples_per_second train_samples_per_second samples_s",
    "steps_per_second": "steps_per_second steps_per_sec train_steps_per_second it_per_s iterations_per_second",
    "data_seconds": "data_seconds data_time dataload_time data_loading_time load_time dataloader_time data_load_time",
    "forward_seconds": "forward_seconds forward_time fwd_time",
    "backward_seconds": "backward_seconds backward_time bwd_time",
    "optimizer_seconds": "optimizer_seconds optimizer_time opt_time",
    "compute_seconds": "compute_seconds compute_time",
    "communication_seconds": "communication_seconds communication_time comm_time allreduce_time",
    "checkpoint_seconds": "checkpoint_seconds checkpoint_time save_checkpoint_time ckpt_time",
    "memory_bytes": "memory_bytes max_memory_allocated",
}
_NORMAL = {alias: name for name, aliases in _SAME.items() for alias in aliases.split()}
_PREFIXES = ("train_", "training_", "perf_", "performance_", "metrics_", "timing_", "time_")
_SECONDS = {name for name in _SAME if name.endswith("seconds")}


def normal(name: str) -> tuple[str, float]:
    """The name that a value has here, and by what it is multiplied; a name that is not known stays as it is."""
    plain = re.sub(r"[^a-z0-9]+", "_", name.lower().rpartition(" - ")[2]).strip("_")
    factor = 1.0
    for ending, times in (
        ("_ms", 1e-3),
        ("_milliseconds", 1e-3),
        ("_us", 1e-6),
        ("_seconds", 1.0),
        ("_secs", 1.0),
        ("_sec", 1.0),
        ("_s", 1.0),
    ):
        if plain.endswith(ending) and not plain.endswith(("_per_s", "_per_sec", "_per_seconds")):
            short = plain[: -len(ending)]
            known = _known(short) or _known(short + "_time")
            if known in _SECONDS:
                return known, times
    known = _known(plain)
    return (known, factor) if known is not None else (name, 1.0)


def _known(plain: str) -> str | None:
    found = _NORMAL.get(plain)
    if found is not None:
        return found
    for prefix in _PREFIXES:
        if plain.startswith(prefix) and plain[len(prefix) :] in _NORMAL:
            return _NORMAL[plain[len(prefix) :]]
    return None


def telling(names: Iterable[str]) -> bool:
    """Whether columns are those of a training: a step or an epoch and something more, or something that is known."""
    lower = [name.strip().lower().rpartition(" - ")[2] for name in names]
    counted = any(name in STEPS or name in EPOCHS for name in lower)
    known = any(normal(name)[0] in _SAME for name in lower)
    return len(lower) >= 2 and (
        known and counted or counted and len(lower) >= 3 or known and any(name in TIMES for name in lower)
    )


def number_of(value: Any) -> float | None:
    """A number, also written as text; None for everything else."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return None


def time_of(value: Any) -> float | None:
    """Seconds since 1970, of a number (seconds, milli- or nanoseconds) or of a date in the form of ISO 8601."""
    found = number_of(value)
    if found is not None:
        for scale in (1.0, 1e3, 1e6, 1e9):
            if 1e8 <= found / scale < 1e10:
                return found / scale
        return None
    if isinstance(value, str) and len(value) >= 16:
        from datetime import datetime, timezone

        try:
            moment = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
        except ValueError:
            return None
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)).timestamp()
    return None


class Column(NamedTuple):
    """What a name of a metric file stands for.

    Attributes:
        means: ``step``, ``time``, ``rank``, ``epoch``, or ``value``.
        called: What the value is called here; a column of times has it too, where a cell of it is none.
        factor: What the value is multiplied with.
    """

    means: str
    called: str
    factor: float


@lru_cache(maxsize=4096)
def column(name: str) -> Column:
    """Return what a name stands for; asked again and again of the few names of a file."""
    short = name.strip().lower().rpartition(" - ")[2]
    called, factor = normal(name.strip())
    for means, names in (("step", STEPS), ("time", TIMES), ("rank", ("rank",)), ("epoch", EPOCHS)):
        if short in names:
            return Column(means, called, factor)
    return Column("value", called, factor)


def row(file: LogFile, line: int, cells: Mapping[str, Any]) -> StepLine | None:
    """One row of named cells as a step; None where it has no number but the step."""
    step: int | None = None
    epoch: float | None = None
    time: float | None = None
    rank: int | None = file.who.rank
    values: dict[str, float] = {}
    for name, cell in cells.items():
        means, called, factor = column(name)
        found = cell if type(cell) is float else number_of(cell)
        if means == "value":
            if found is not None and called not in values:
                values[called] = found * factor
        elif means == "step":
            step = int(found) if step is None and found is not None and math.isfinite(found) else step
        elif means == "time" and (moment := time_of(cell)) is not None:
            time = moment
        elif means == "rank" and found is not None and found >= 0:
            rank = int(found)
        elif found is not None:
            if means == "epoch":
                epoch = found
            values.setdefault(called, found * factor)
    if step is None and epoch is not None and epoch == int(epoch):
        step = int(epoch)
    if not values:
        return None
    who = (
        file.who
        if rank == file.who.rank
        else Who(rank, file.who.node, file.who.local_rank, file.who.attempt, file.who.pid)
    )
    return StepLine(file=file.index, line=line, step=step, values=values, who=who, time=time)
