"""How far the memory formulas are from published measurements.

Usage: python benchmarks/memory_accuracy.py [FOLDER] [-v]
FOLDER holds memory.csv and fits_oom.csv (default: benchmarks/data); -v prints every row.

Every row is expressed in the words of the vocabulary where its source says enough, estimated, and compared within its
own kind of reading: allocated and active against the allocated peak, reserved against reserved, nvidia-smi against
the device. Errors are signed relative errors (estimate / measured - 1), per source; the last line weighs sources alike.
"""

from __future__ import annotations

import csv
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

from memory_rows import GIB, CannotExpress, Expressed, express

from preflight.catalog.hardware import resolve_gpu
from preflight.cost.memory import estimate_memory
from preflight.cost.optimizers import optimizer_state
from preflight.cost.parameters import count_parameters
from preflight.cost.recipe import recipe_of
from preflight.cost.shares import share_of
from preflight.cost.states import states_of
from preflight.errors import PreflightError
from preflight.vocabulary.hardware import Gpu
from preflight.vocabulary.memory import MemoryEstimate
from preflight.vocabulary.quantity import Interval


def gpu_of(row: Mapping[str, str]) -> Gpu | None:
    """Return the catalog's GPU of a row, or None when it has none."""
    try:
        return resolve_gpu(row["gpu"]) if row["gpu"] else None
    except PreflightError:
        return None


def estimate(row: Mapping[str, str], expressed: Expressed) -> MemoryEstimate:
    """Return the estimate of a row."""
    return estimate_memory(expressed.model, expressed.run, expressed.parallel, gpu_of(row), stage=expressed.stage)


def compared(row: Mapping[str, str], memory: MemoryEstimate) -> tuple[str, Interval | None]:
    """Return the kind of reading and the interval that speaks of the same thing."""
    kind = row["mem_kind"].lower()
    if "smi" in kind or "nvml" in kind:
        return "device", memory.device_bytes
    if "reserved" in kind:
        return "reserved", memory.reserved_bytes
    if "allocated" in kind or "active" in kind:
        return "allocated", memory.peak_bytes
    return "not stated", None


def floor_bytes(expressed: Expressed) -> float:
    """Return parameters, gradients and states together: what no peak of such a run can be below."""
    run, parallel, model = expressed.run, expressed.parallel, expressed.model
    count, optimizer = count_parameters(model), optimizer_state(run.optimizer or "")
    if count is None or optimizer is None:
        return 0.0
    recipe = recipe_of(run, parallel)
    states = states_of(model, run, parallel, share_of(model, run, count, parallel, 0), recipe, optimizer)
    return states.parameters + states.gradients + states.optimizer


def main(folder: Path, verbose: bool = False) -> None:
    """Print the comparison."""
    rows = list(csv.DictReader((folder / "memory.csv").open(encoding="utf-8")))
    errors: dict[tuple[str, str], list[tuple[float, bool]]] = defaultdict(list)
    refused: Counter[tuple[str, str]] = Counter()
    for row in rows:
        if row["primary"] != "1" or not row["measured_peak_gib"]:
            refused[row["source"], "no measured value with a clear unit, or a repeated row"] += 1
            continue
        try:
            expressed = express(row)
        except CannotExpress as reason:
            refused[row["source"], str(reason)] += 1
            continue
        memory = estimate(row, expressed)
        kind, interval = compared(row, memory)
        if interval is None:
            refused[row["source"], memory.reason or f"kind of reading: {kind}"] += 1
            continue
        measured = float(row["measured_peak_gib"]) * GIB
        if expressed.run.finetune == "full" and measured < 0.9 * floor_bytes(expressed):
            refused[row["source"], "published value is below the parameters, gradients and states it names"] += 1
            continue
        error = interval.mid / measured - 1
        errors[row["source"], kind].append((error, interval.low <= measured <= interval.high))
        if verbose:
            parts = memory.breakdown
            detail = (
                " ".join(
                    f"{name[:6]}={getattr(parts, name) / GIB:.2f}"
                    for name in parts.__struct_fields__
                    if getattr(parts, name)
                )
                if parts
                else ""
            )
            print(
                f"{row['id']:28} {row['model'][:22]:22} {row['task'][:5]:5} b{row['micro_batch']:>3} "
                f"meas {measured / GIB:7.2f} est {interval.mid / GIB:7.2f} {error:+7.1%} {detail}"
            )
    report(errors, refused, len(rows))
    fits_report(folder)


def report(
    errors: Mapping[tuple[str, str], list[tuple[float, bool]]], refused: Counter[tuple[str, str]], total: int
) -> None:
    """Print errors by source and kind, and why rows were left out."""
    print(f"{'source':26} {'reading':10} {'rows':>4} {'median':>8} {'MAE':>7} {'bias':>8} {'in interval':>11}")
    means = []
    for (source, kind), values in sorted(errors.items()):
        signed = [error for error, _ in values]
        mae = statistics.fmean(abs(error) for error in signed)
        inside = statistics.fmean(hit for _, hit in values)
        means.append((mae, statistics.fmean(signed), inside))
        print(
            f"{source:26} {kind:10} {len(values):4} {statistics.median(signed):+8.1%} {mae:7.1%} "
            f"{statistics.fmean(signed):+8.1%} {inside:11.0%}"
        )
    expressed = sum(len(values) for values in errors.values())
    mae, bias, inside = (statistics.fmean(column) for column in zip(*means, strict=True))
    print(f"{'macro-average':26} {'':10} {expressed:4} {'':8} {mae:7.1%} {bias:+8.1%} {inside:11.0%}")
    print(f"\n{expressed} of {total} rows expressed; the others:")
    for (source, reason), count in sorted(refused.items()):
        print(f"  {count:3} {source}: {reason}")


def fits_report(folder: Path) -> None:
    """Print how observed out-of-memory rows and measured rows that ran are judged."""
    table: Counter[tuple[str, str]] = Counter()
    skipped: Counter[str] = Counter()
    for name in ("fits_oom.csv", "memory.csv"):
        for row in csv.DictReader((folder / name).open(encoding="utf-8")):
            seen = {"OOM": "ran out"}.get(row.get("outcome", ""), "fitted" if name == "memory.csv" else "")
            gpu = gpu_of(row)
            try:
                if not seen or gpu is None:
                    raise CannotExpress("largest batch without a length, or GPU not in the catalog")
                source = row["source"]
                expressed = express(row | {"source": source, "notes": row.get("notes", "")})
                stage = expressed.stage
                memory = estimate_memory(expressed.model, expressed.run, expressed.parallel, gpu, stage=stage)
                table[seen, memory.fits] += 1
            except CannotExpress as reason:
                if name == "fits_oom.csv":
                    skipped[str(reason)] += 1
    print("\nobserved against verdict (rows)      yes   unknown        no")
    for seen in ("fitted", "ran out"):
        print(f"  {seen:30} {table[seen, 'yes']:7} {table[seen, 'unknown']:9} {table[seen, 'no']:9}")
    for why, count in sorted(skipped.items()):
        print(f"  {count:3} rows of fits_oom.csv left out: {why}")


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "-v"]
    main(Path(words[0]) if words else Path(__file__).parent / "data", "-v" in sys.argv)
