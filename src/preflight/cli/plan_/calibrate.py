"""``preflight plan calibrate``: make predictions learn from runs of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from preflight.cli.parts.grouped import GroupedCommand
from preflight.cli.parts.planning import settings_options

if TYPE_CHECKING:
    from preflight.cost.machine import Coefficients
    from preflight.plan.calibration.record import MemoryFit


@click.command("calibrate", cls=GroupedCommand)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@settings_options
@click.option("-o", "--output", metavar="FILE", default="calibration.json", help="The calibration to write.")
def command(files: tuple[str, ...], output: str, **given: Any) -> int:
    """Fit the coefficients of the time of a step to what was measured, and write them for --calibration.

    A FILE is a log of a run that the options describe (its step times or tokens per second are read), the trace folder
    of such a run (preflight monitor collect: its step times, and the memory that it held of its GPUs), a list of rows
    in JSON ([{"run.micro_batch": 2, "cluster.num_gpus": 16, "seconds": 1.31}, ...]: what an option would say, the
    seconds of a step, and allocated_bytes and reserved_bytes where they are known), or the readings that
    plan/calibration/microbenchmark.py took on a GPU.
    """
    import msgspec

    from preflight.plan.calibration.calibrate import calibrate
    from preflight.plan.calibration.given import gathered
    from preflight.plan.calibration.memory import fit_memory
    from preflight.plan.calibration.record import save

    path = given.pop("calibration", None)
    measured = gathered(files, _asked(given), _known(path), _of_trace)
    found = calibrate(measured.steps, files, measured.start) if measured.steps else _of_readings(files, measured.start)
    memory, left_out = fit_memory(measured.memory)
    found = msgspec.structs.replace(found, memory=memory)
    save(found, output)
    rows = (
        f"{found.rows} measured {'step' if found.rows == 1 else 'steps'}"
        if found.rows
        else "readings of the micro-benchmark"
    )
    error = f"; median error on rows left out {found.error:.1%}" if found.error is not None else ""
    click.echo(f"{output}: {rows} of {', '.join(found.gpus)}{error}", err=True)
    for name, value in _moved(found.coefficients):
        click.echo(f"  {name}: {value}", err=True)
    for line in [*map(_memory_line, memory), *left_out]:
        click.echo(f"  {line}", err=True)
    return 0


def _memory_line(found: MemoryFit) -> str:
    """Return what was measured of the memory of a model."""
    layers, width = found.shape
    held = "" if found.held is None else f", {found.held:.1%} held beside what is handed out"
    runs = "1 run" if found.rows == 1 else f"{found.rows} runs"
    return f"memory of {layers:g} layers of width {width:g}: {found.activations:.3g} of the activations{held} ({runs})"


def _asked(given: dict[str, Any]) -> Any:
    """Return the function that makes a settled request of the options and a row's own settings."""
    from preflight.cli.parts.planning import asked
    from preflight.errors import UsageError, nearest
    from preflight.plan.inputs.form import KEYS
    from preflight.plan.inputs.settings import Settings, said
    from preflight.plan.spread import settled

    def request(row: dict[str, Any], where: str) -> Any:
        for path in row:
            if path not in KEYS:
                near = nearest(path, KEYS)
                raise UsageError(f"{where}: unknown key {path!r}", f"did you mean {near}?" if near else None)
        above = Settings({path: said(path, value, where) for path, value in row.items()})
        return settled(asked((), given, None, above))

    return request


def _of_trace(path: str) -> Any:
    """Return how long a step of the optimizer took in a recorded run, and the most that a rank held of its GPU.

    The time is the median of the slowest rank, which all wait for.
    """
    import statistics

    from preflight.errors import UsageError
    from preflight.monitor.follow import Follower
    from preflight.monitor.outcome import watched_of
    from preflight.monitor.trace.folder import TraceFolder
    from preflight.plan.calibration.logs import Reading

    follower = Follower(TraceFolder(path), ())
    follower.check()
    watched = watched_of(follower, ())
    ranks = [
        [one for one in series.values if one is not None] for series in watched.series if series.name == "step time"
    ]
    if not any(ranks) or not watched.steps:
        raise UsageError(f"{path}: too few steps to say how long one takes", "record more of the run")
    # What is timed is an iteration; where gradients are accumulated, several of them make a step.
    of_a_step = max(watched.iterations / watched.steps, 1.0)
    slowest = max(
        (values for values in ranks if values), key=lambda values: statistics.median(values[len(values) // 2 :])
    )
    middle = statistics.median(slowest[len(slowest) // 2 :])
    of_host = any(series.name == "memory resident" for series in watched.series)
    if of_host and not watched.memory:
        raise UsageError(
            f"{path}: was recorded without a GPU: its step times are those of a processor",
            "record a run on the GPU that the plan is for",
        )
    fullest = max(watched.memory, key=lambda held: held.peak_bytes, default=None)
    if fullest is None:
        click.echo(f"{path}: holds no memory of a GPU, so that of a plan stays as it is", err=True)
        return Reading("seconds", middle * of_a_step, len(slowest))
    held = fullest.peak_bytes, fullest.peak_reserved_bytes
    return Reading("seconds", middle * of_a_step, len(slowest), *held)


def _known(path: str | None) -> Coefficients | None:
    from preflight.plan.calibration.record import load

    return load(path).coefficients if path else None


def _of_readings(files: tuple[str, ...], start: Any) -> Any:
    """Return the calibration that the micro-benchmark alone gives."""
    from preflight.plan.calibration.given import of_readings

    return of_readings(files, start)


def _moved(found: Coefficients) -> list[tuple[str, str]]:
    """Return the coefficients that are no longer the catalog's."""
    from preflight.plan.calibration.prior import default_of

    rows = []
    for name in found.__struct_fields__:
        before, after = default_of(name), getattr(found, name)
        if abs(after / before - 1) > 0.01:
            rows.append((name, f"{before:.4g} -> {after:.4g}"))
    return rows
