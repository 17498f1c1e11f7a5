"""``preflight plan calibrate``: make predictions learn from runs of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from preflight.cli.parts.grouped import GroupedCommand
from preflight.cli.parts.planning import settings_options

if TYPE_CHECKING:
    from preflight.cost.machine import Coefficients


@click.command("calibrate", cls=GroupedCommand)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@settings_options
@click.option("-o", "--output", metavar="FILE", default="calibration.json", help="The calibration to write.")
def command(files: tuple[str, ...], output: str, **given: Any) -> int:
    """Fit the coefficients of the time of a step to what was measured, and write them for --calibration.

    A FILE is a log of a run that the options describe (its step times or tokens per second are read), the trace folder
    of such a run (preflight monitor collect), a list of rows in
    JSON ([{"run.micro_batch": 2, "cluster.num_gpus": 16, "seconds": 1.31}, ...]: what an option would say, and the
    seconds of a step), or the readings that plan/calibration/microbenchmark.py took on a GPU.
    """
    from preflight.plan.calibration.calibrate import calibrate
    from preflight.plan.calibration.given import gathered
    from preflight.plan.calibration.record import save

    path = given.pop("calibration", None)
    samples, start = gathered(files, _asked(given), _known(path), _of_trace)
    found = calibrate(samples, files, start) if samples else _of_readings(files, start)
    save(found, output)
    rows = f"{found.rows} measured steps" if found.rows else "readings of the micro-benchmark"
    error = f"; median error on rows left out {found.error:.1%}" if found.error is not None else ""
    click.echo(f"{output}: {rows} of {', '.join(found.gpus)}{error}", err=True)
    for name, value in _moved(found.coefficients):
        click.echo(f"  {name}: {value}", err=True)
    return 0


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
    """Return how long a step of the optimizer took in a recorded run: the slowest rank's median, which all wait for."""
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
    return Reading("seconds", middle * of_a_step, len(slowest))


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
