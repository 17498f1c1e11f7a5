"""Spreads the reading of files over the machines of a ray cluster; a machine that is lost is made up for by others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from preflight.errors import InputError, UsageError
from preflight.source.logs.one_file import Wanted, read_one
from preflight.source.logs.pool import batches
from preflight.source.logs.reduced import Reduced
from preflight.source.logs.rules import rules_of

_TRIES = 5


def read_on_cluster(
    work: Sequence[Wanted], packed: bytes, tell: Callable[[int, int], None] | None = None
) -> list[list[Reduced]]:
    """Read the sources; the result is in their order, whoever was done first.

    Connects to the cluster that ``RAY_ADDRESS`` names, or to the one that the process is in; starts one on this
    machine where there is none. Every machine must see the files under the same paths.

    Raises:
        UsageError: Ray is not installed.
        InputError: A heap of files was lost with its machine again and again.
    """
    ray = _ray()
    started = not ray.is_initialized()
    if started:
        ray.init(logging_level="ERROR", log_to_driver=False, include_dashboard=False)
    try:
        return _read_all(ray, work, packed, tell)
    finally:
        if started:
            ray.shutdown()


def _read_all(
    ray: Any, work: Sequence[Wanted], packed: bytes, tell: Callable[[int, int], None] | None
) -> list[list[Reduced]]:
    # A heap of files that is only read may be read again anywhere, so a lost machine costs no more than its own heaps.
    task = ray.remote(num_cpus=1, max_retries=_TRIES)(_read)
    rules = ray.put(packed)
    heaps = batches(work)
    places = {task.remote(msgspec.msgpack.encode([work[number] for number in heap]), rules): heap for heap in heaps}
    done: dict[int, list[Reduced]] = {}
    waiting = list(places)
    while waiting:
        ready, waiting = ray.wait(waiting, num_returns=1)
        for reference in ready:
            try:
                answer = ray.get(reference)
            except ray.exceptions.RayError as error:
                first = work[places[reference][0]].source.path
                raise InputError(f"{first} and its neighbours could not be read on the cluster: {error}") from error
            found = msgspec.msgpack.decode(answer, type=list[list[Reduced]])
            done.update(zip(places[reference], found, strict=True))
            if tell is not None:
                tell(len(heaps) - len(waiting), len(heaps))
    return [done[number] for number in range(len(work))]


def _read(work: bytes, packed: bytes) -> bytes:
    """Read sources on another machine; plain bytes travel there and back."""
    rules = rules_of(packed)
    wanted = msgspec.msgpack.decode(work, type=list[Wanted])
    return msgspec.msgpack.encode([read_one(one, rules) for one in wanted])


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise UsageError("ray is not installed", "pip install 'preflight-torch[ray]', or --engine local") from None
    return ray
