"""A rank's side of the tournament, in a process of its own: nothing but the standard library and torch.

Ranks find each other in a store. A thread of each counts up a number there for as long as the process lives, so that one
who is late because it waits for somebody else is told from one who is gone.
"""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import Any

from preflight.investigate.workers import group

BEAT = 0.25
_here: dict[str, Any] = {}


def arrive(endpoint: tuple[str, int], run: str, rank: int, host: str, seconds: float) -> int:
    """Come to the tournament: be heard of from now on; return how many have come."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    if "store" not in _here:
        wait = timedelta(seconds=seconds)
        _here["store"] = dist.TCPStore(endpoint[0], endpoint[1], is_master=False, timeout=wait, wait_for_workers=False)
        own = dist.TCPStore(endpoint[0], endpoint[1], is_master=False, timeout=wait, wait_for_workers=False)
        threading.Thread(target=_beat, args=(own, f"{run}/beat/{rank}"), daemon=True).start()
        _here["store"].set(f"{run}/host/{rank}", host)
        return int(_here["store"].add(f"{run}/arrived", 1))
    return int(_here["store"].add(f"{run}/arrived", 0))


def _beat(store: Any, key: str) -> None:
    while True:
        try:
            store.add(key, 1)
        except Exception:
            return
        time.sleep(BEAT)


def hosts(run: str, world: int, seconds: float) -> dict[str, str]:
    """Return the hosts of all ranks that have come, as soon as all have, or when the time is up."""
    store, end = _here["store"], time.monotonic() + seconds
    while True:
        come = [rank for rank in range(world) if store.check([f"{run}/host/{rank}"])]
        if len(come) == world or time.monotonic() > end:
            return {str(rank): store.get(f"{run}/host/{rank}").decode() for rank in come}
        time.sleep(0.1)


def meet(
    endpoint: tuple[str, int], run: str, step: int, rank: int, peer: int, sizes: list[int], repeats: int,
    warm_up: int, seconds: float, backend: str, device: int | None = None, delay: float = 0.0,
) -> dict[str, Any]:  # fmt: skip
    """Meet another rank: send and receive blocks back and forth, and return the times; or that it is absent, or failed."""
    store = _here["store"]
    store.set(f"{run}/at/{rank}/{step}", "1")
    if not _comes(store, run, peer, step, seconds):
        return {"outcome": "absent"}
    low, high = min(rank, peer), max(rank, peer)
    try:
        kind = group.join(endpoint, f"{run}/{step}/{low}-{high}", int(rank == high), 2, backend, seconds, device)
        times, wrong = {}, 0
        for size in sizes:
            times[str(size)], bad = _back_and_forth(size, rank == low, int(rank == low), kind, repeats, warm_up, delay)
            wrong += bad
        return {"outcome": "done", "times": times, "wrong": wrong}
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        failed = {"outcome": "failed", "reason": f"{type(error).__name__}: {lines[0][:300]}"}
        return failed if _lives(store, run, peer, seconds) else {"outcome": "absent"}
    finally:
        group.leave()


def _comes(store: Any, run: str, peer: int, step: int, seconds: float) -> bool:
    """Wait until the peer has come to this meeting; not for one whose heart has stopped."""
    heard, count, since = -1, -1, time.monotonic()
    while not store.check([f"{run}/at/{peer}/{step}"]):
        if store.check([f"{run}/absent/{peer}"]):
            return False
        count = store.add(f"{run}/beat/{peer}", 0)
        if count != heard:
            heard, since = count, time.monotonic()
        elif time.monotonic() - since > seconds:
            store.set(f"{run}/absent/{peer}", "1")
            return False
        time.sleep(0.02)
    return True


def _lives(store: Any, run: str, peer: int, seconds: float) -> bool:
    """Return whether a peer's heart still beats, after a meeting with it went wrong."""
    if store.check([f"{run}/absent/{peer}"]):
        return False
    first, end = store.add(f"{run}/beat/{peer}", 0), time.monotonic() + min(seconds, 8 * BEAT)
    while time.monotonic() < end:
        time.sleep(BEAT)
        if store.add(f"{run}/beat/{peer}", 0) != first:
            return True
    store.set(f"{run}/absent/{peer}", "1")
    return False


def _back_and_forth(
    size: int, first: bool, peer: int, kind: str, repeats: int, warm_up: int, delay: float
) -> tuple[list[float], int]:
    """Return the times for one way of each exchange, and how many values came back wrong."""
    import torch
    import torch.distributed as dist

    count = max(size // 4, 1)
    data = torch.zeros(count, device=kind)
    taken, wrong = [], 0
    for number in range(warm_up + repeats):
        if first:
            data.fill_(float(number + 1))
        if kind == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        if delay:
            time.sleep(delay)
        for sends in (first, not first):
            if sends:
                dist.send(data, peer)
            else:
                dist.recv(data, peer)
        if kind == "cuda":
            torch.cuda.synchronize()
        passed = time.perf_counter() - began
        wrong += int((data != float(number + 1)).sum()) if number in (0, warm_up + repeats - 1) else 0
        if number >= warm_up:
            taken.append(passed / 2)
    return taken, wrong


def hand_in(run: str, rank: int, result: str) -> None:
    """Leave this rank's results in the store."""
    _here["store"].set(f"{run}/result/{rank}", result)


def collect(run: str, world: int, seconds: float) -> dict[str, str]:
    """Return the results of all ranks that are not absent, as soon as they are there, or when the time is up."""
    store, end = _here["store"], time.monotonic() + seconds
    while True:
        there = [rank for rank in range(world) if store.check([f"{run}/result/{rank}"])]
        gone = [rank for rank in range(world) if rank not in there and store.check([f"{run}/absent/{rank}"])]
        if len(there) + len(gone) == world or time.monotonic() > end:
            return {str(rank): store.get(f"{run}/result/{rank}").decode() for rank in there}
        time.sleep(0.1)
