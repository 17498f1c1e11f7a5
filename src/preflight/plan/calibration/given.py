"""Files that a person calibrates on: logs, traces, rows in JSON, readings of the micro-benchmark."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import msgspec

from preflight.cost.machine import Coefficients
from preflight.errors import UsageError
from preflight.plan.calibration.logs import Reading, read_log
from preflight.plan.calibration.memory import Held, MemorySample
from preflight.plan.calibration.readings import SCHEMA, Readings, coefficients_from, read_readings
from preflight.plan.calibration.record import Calibration
from preflight.plan.calibration.sample import Sample
from preflight.plan.request import Request
from preflight.vocabulary.hardware import Gpu

Asked = Callable[[dict[str, Any], str], Request]
_Row = tuple[Request, Reading, str]
_HELD = ("allocated", "reserved")
_SPEEDS = ("seconds", "steps", "samples", "tokens", "tokens_per_gpu")


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What files say.

    Attributes:
        steps: Measured steps.
        memory: What the runs held, where that was recorded.
        start: Coefficients that are known before.
    """

    steps: tuple[Sample, ...]
    memory: tuple[MemorySample, ...]
    start: Coefficients | None


def gathered(
    files: tuple[str, ...], asked: Asked, start: Coefficients | None, of_trace: Callable[[str], Reading]
) -> Given:
    """Return what all files measured, and what a micro-benchmark among them says beforehand.

    Args:
        files: Their paths.
        asked: Makes a settled request of what a row says, above the options.
        start: Coefficients that are known before, of an earlier calibration.
        of_trace: Says how long steps took in a trace folder.

    Raises:
        UsageError: A file is not there, says nothing of speed, or a row is wrong.
    """
    rows: list[_Row] = []
    for path in files:
        if os.path.isdir(path):
            rows.append((asked({}, path), of_trace(path), path))
            continue
        data = _read(path)
        readings = _readings(data, path)
        if readings is not None:
            start = coefficients_from(readings)[1]
        elif path.endswith(".json"):
            rows += _rows(data, path, asked)
        else:
            rows.append((asked({}, path), read_log(data.decode("utf-8", "replace"), path), path))
    return Given(
        steps=tuple(_sample(*row) for row in rows),
        memory=tuple(_memory(*row) for row in rows if row[1].allocated is not None),
        start=start,
    )


def of_readings(files: tuple[str, ...], start: Coefficients | None) -> Calibration:
    """Return the calibration of a micro-benchmark alone: no step was seen, and its error is that of the catalog."""
    gpus: list[Gpu] = []
    for path in files:
        readings = _readings(_read(path), path)
        if readings is not None:
            gpus.append(coefficients_from(readings)[0])
    return Calibration(
        coefficients=start or Coefficients(), gpus=tuple(sorted({gpu.name for gpu in gpus})), rows=0, fitted_on=files
    )


def _read(path: str) -> bytes:
    if not os.path.isfile(path):
        raise UsageError(
            f"no file {path}", "a log, a trace folder, rows in a .json file, or readings of the micro-benchmark"
        )
    with open(path, "rb") as stream:
        return stream.read()


def _readings(data: bytes, path: str) -> Readings | None:
    return read_readings(data, path) if SCHEMA.rpartition("/")[0].encode() in data[:200] else None


def _rows(data: bytes, path: str, asked: Asked) -> list[_Row]:
    try:
        rows = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}") from None
    found: list[_Row] = []
    for index, row in enumerate(rows if isinstance(rows, list) else [rows]):
        where = f"{path}: row {index}"
        speeds = [name for name in _SPEEDS if isinstance(row, dict) and isinstance(row.get(name), int | float)]
        if len(speeds) != 1 or not row[speeds[0]] > 0:
            raise UsageError(f"{where} needs one of {', '.join(_SPEEDS)}", "a positive number of seconds or per second")
        held = {name: _bytes(row[f"{name}_bytes"], where) for name in _HELD if f"{name}_bytes" in row}
        if "reserved" in held and not held.get("allocated", math.inf) <= held["reserved"]:
            raise UsageError(f"{where} reserves less than it allocates, or does not say what it allocates")
        reading = Reading(speeds[0], float(row[speeds[0]]), 1, **held)
        told = {speeds[0], *(f"{name}_bytes" for name in _HELD)}
        found.append((asked({key: value for key, value in row.items() if key not in told}, where), reading, where))
    return found


def _bytes(value: Any, where: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
        raise UsageError(f"{where} says {value!r} of its memory", "a positive number of bytes")
    return float(value)


def _sample(request: Request, reading: Reading, name: str) -> Sample:
    assert request.parallel is not None
    run = request.run
    seconds = reading.seconds(
        float(run.global_batch or 1), float(run.sequence_length or 0), request.parallel.world_size
    )
    return Sample(
        model=request.model, run=run, parallel=request.parallel, cluster=request.cluster, seconds=seconds, name=name
    )


def _memory(request: Request, reading: Reading, name: str) -> MemorySample:
    assert request.parallel is not None
    assert reading.allocated is not None
    held = Held(allocated=reading.allocated, reserved=reading.reserved)
    return MemorySample(
        model=request.model, run=request.run, parallel=request.parallel, cluster=request.cluster, held=held, name=name
    )
