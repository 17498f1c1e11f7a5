"""Makes the trials itself: before and after in turn, each with a deadline, each outcome told apart."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator

from preflight.investigate.verify.trial import Trial


def order_of(trials: int) -> Iterator[str]:
    """Before, after, after, before, and so on: a drift of the machine falls on both sides alike."""
    for number in range(trials):
        yield from ("before", "after") if number % 2 == 0 else ("after", "before")


def make_trials(
    commands: dict[str, str], trials: int, deadline: float, folder: str, *, say: Callable[[str], None] | None = None,
    enough: Callable[[list[Trial], list[Trial]], bool] | None = None,
) -> tuple[list[Trial], list[Trial]]:  # fmt: skip
    """Run the commands in turn; what each prints goes to a log of its own in the folder.

    Args:
        commands: The command line before and that after the change.
        trials: How often each is run.
        deadline: Seconds that one may take.
        folder: Where the logs go.
        say: Told of every trial.
        enough: Asked after every trial whether to stop.
    """
    found: dict[str, list[Trial]] = {"before": [], "after": []}
    for number, side in enumerate(order_of(trials), 1):
        if side not in commands:
            continue
        trial = run_once(commands[side], os.path.join(folder, f"{number:03d}-{side}.log"), deadline, number)
        found[side].append(trial)
        if say is not None:
            what = f" ({trial.what[0]})" if trial.what else ""
            say(f"trial {number} {side}: {trial.outcome}{what}")
        if enough is not None and enough(found["before"], found["after"]):
            break
    return found["before"], found["after"]


def run_once(command: str, log: str, deadline: float, order: int) -> Trial:
    """Run a command line as the shell would; when its time is over it is ended with everything that it started."""
    from preflight.catalog.signature_files import load_signatures
    from preflight.investigate.judge import judge
    from preflight.investigate.verify.logs import trial_of_reading
    from preflight.source.logs import read_logs

    begun = time.monotonic()
    with open(log, "wb") as file:
        process = subprocess.Popen(
            command, shell=True, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True
        )
        try:
            code: int | None = process.wait(deadline)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end(process)
    took = time.monotonic() - begun
    known = load_signatures()
    reading = read_logs([log], known)
    read = trial_of_reading(log, reading, judge(reading, known))
    series = dict(read.series)
    if code == 0:
        series.setdefault("wall_seconds", [took])
    return Trial(
        name=log, outcome="timeout" if code is None else "pass" if code == 0 else "infra" if code in (126, 127) else "fail",
        what=read.what or ((f"exit-{code}",) if code else ()), steps=read.steps, hours=took / 3600, order=float(order), series=series,
        places=read.places,
    )  # fmt: skip


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and its group; first politely."""
    for number, patience in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
        if process.poll() is not None and number is signal.SIGTERM:
            break
        try:
            os.killpg(process.pid, number)
        except (ProcessLookupError, PermissionError):
            break
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue
