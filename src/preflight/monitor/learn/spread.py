"""Spreads the reading of runs over the machines of a ray cluster; a machine that is lost is made up for by others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from preflight.errors import TraceError, UsageError
from preflight.monitor.learn.reduce import Part, Reduced, reduce

_TRIES = 5


def reduce_all(work: Sequence[Part], tell: Callable[[int, int], None] | None = None) -> list[Reduced]:
    """Count the examples of all parts; the result is in the order of the parts, whoever was done first.

    Connects to the cluster that ``RAY_ADDRESS`` names, or to the one that the process is in; starts one on this
    machine where there is none. Every machine must see the trace folders under the same paths.

    Raises:
        UsageError: Ray is not installed.
        TraceError: A part could not be read on any machine.
    """
    ray = _ray()
    started = not ray.is_initialized()
    if started:
        ray.init(logging_level="ERROR", log_to_driver=False, include_dashboard=False)
    try:
        return _reduce_all(ray, work, tell)
    finally:
        if started:
            ray.shutdown()


def _reduce_all(ray: Any, work: Sequence[Part], tell: Callable[[int, int], None] | None) -> list[Reduced]:
    # A part that only reads may be done again anywhere, so a lost worker or machine costs no more than its own parts.
    task = ray.remote(num_cpus=1, max_retries=_TRIES)(_plain)
    places = {task.remote(part.folder, part.files, part.relations): place for place, part in enumerate(work)}
    done: dict[int, Reduced] = {}
    waiting = list(places)
    while waiting:
        ready, waiting = ray.wait(waiting, num_returns=1)
        for reference in ready:
            place = places[reference]
            done[place] = Reduced(*_given(ray, reference, work[place]))
            if tell is not None:
                tell(len(done), len(work))
    return [done[place] for place in range(len(work))]


def _given(ray: Any, reference: Any, part: Part) -> tuple[bytes, int, int, dict[str, str]]:
    try:
        given: tuple[bytes, int, int, dict[str, str]] = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause if isinstance(error.cause, TraceError) else None
        raise cause or TraceError(f"{part.folder} could not be read on the cluster: {error}") from error
    except ray.exceptions.RayError as error:
        raise TraceError(
            f"{part.folder} could not be read: the cluster lost the part {_TRIES} times: {error}"
        ) from error
    return given


def _plain(folder: str, files: tuple[str, ...], relations: tuple[str, ...]) -> tuple[bytes, int, int, dict[str, str]]:
    """Count the examples of a part on another machine; plain values travel there and back."""
    reduced = reduce(Part(folder, files, relations))
    return reduced.evidence, reduced.windows, reduced.rows, reduced.failed


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise UsageError(
            "ray is not installed", "pip install 'preflight-torch[ray]', or read the runs here: --engine local"
        ) from None
    return ray
