"""Run probes: on this rank of a launched job, or on ranks of one's own on this machine; every operation with a deadline."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import msgspec

from preflight.errors import UsageError, nearest
from preflight.investigate.liveness.board import endpoint_of
from preflight.investigate.probes.timed import summary
from preflight.investigate.workers.worker import Failed, TimedOut, Worker
from preflight.listing import modules_beside
from preflight.vocabulary.finding import Scalar
from preflight.vocabulary.live import Measurement, Outcome

STARTING = 120.0
"""So many seconds may pass until a process has imported torch, on a machine that is busy or reads it over a network."""
GIVE_UP_AFTER = 2
"""After so many operations of a probe that timed out, the rest of it is left out."""
SLOW_FACTOR, SLOW_DELAY = 4.0, 0.2
STRUCK = {
    "slow-rank": ("compute", "processor"),
    "slow-loader": ("loading",),
    "bit-flip": ("memory",),
    "slow-link": ("collectives",),
}
"""The probes that a fault strikes."""
_NOT_PROBES = ("__init__.py", "timed.py")


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """How probes are run.

    Attributes:
        python: The interpreter that trains.
        ranks: Ranks of one's own to start; None: this rank of a launched job, or one alone.
        device: ``cpu``, ``cuda``, or None for whichever there is.
        deadline: Seconds for each operation.
        repeats: How often each is repeated. warm_up: How often before. seconds: After which it is not repeated further.
        largest: Bytes of the largest collective; None: 256 MiB on cards, 4 MiB on processors.
        settings: Further settings, by probe.
        inject: Faults to demonstrate with: ``slow-rank``, ``slow-loader``, ``slow-link``, ``bit-flip``, with their ranks.
    """

    python: str
    ranks: int | None = None
    device: str | None = None
    deadline: float = 60.0
    repeats: int = 20
    warm_up: int = 3
    seconds: float = 5.0
    largest: int | None = None
    settings: dict[str, dict[str, Any]] = {}
    inject: dict[str, tuple[int, ...]] = {}


def probe_names() -> tuple[str, ...]:
    """Return the names of all probes: the modules of ``probes``."""
    return modules_beside(__file__, "probes", but=_NOT_PROBES)


def probe(name: str) -> Any:
    """Return the module of a probe.

    Raises:
        UsageError: There is none of this name.
    """
    if name not in probe_names():
        near = nearest(name, probe_names())
        raise UsageError(f"no probe is called {name!r}", f"did you mean {near}?" if near else ", ".join(probe_names()))
    return import_module(f"preflight.investigate.probes.{name}")


def run(names: Sequence[str], setup: Setup, say: Callable[[str], None] | None = None) -> tuple[Measurement, ...]:
    """Run probes and return what was measured, timed out or failed; bounded by the sum of the deadlines."""
    modules = {name: probe(name) for name in names}
    team = Team(setup)
    try:
        found: list[Measurement] = []
        for name, module in modules.items():
            found += team.run(name, module, say)
        return tuple(found)
    finally:
        team.close()


class Team:
    """The ranks that this process drives: one where it was launched as a rank, all of them where it starts its own."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        launched = setup.ranks is None and int(os.environ.get("WORLD_SIZE", "1")) > 1
        self.world = int(os.environ["WORLD_SIZE"]) if launched else setup.ranks or 1
        self.ranks = [int(os.environ["RANK"])] if launched else list(range(self.world))
        self.workers = {rank: Worker(setup.python, {} if launched else _own(rank, self.world)) for rank in self.ranks}
        self.keeper = None if launched or self.world == 1 else Worker(setup.python)
        try:
            cards = self._each(self.ranks, "preflight.investigate.workers.group:devices", STARTING, lambda rank: {})
            self.device = setup.device or (
                "cuda" if cards and all(isinstance(one, int) and one for one in cards.values()) else "cpu"
            )
            self.endpoint = endpoint_of(None) if launched else ("127.0.0.1", self._keep())
        except BaseException:
            self.close()
            raise

    def _keep(self) -> int:
        """Return the port of a store in a process of its own, which no rank takes with it."""
        if self.keeper is None:
            return 0
        return int(self.keeper.ask("preflight.investigate.workers.group:keep", STARTING))

    def close(self) -> None:
        """End all processes."""
        for worker in [*self.workers.values(), *filter(None, [self.keeper])]:
            worker.kill()

    def run(self, name: str, module: Any, say: Callable[[str], None] | None) -> list[Measurement]:
        """Run one probe."""
        if module.TOGETHER and self.world < 2:
            return [_missing(name, name, None, "skipped", "takes two ranks or more: --ranks N, or under torchrun")]
        found: list[Measurement] = []
        given = {rank: self._settings(name, rank) for rank in self.ranks}
        timeouts = dict.fromkeys(self.ranks, 0)
        for number, operation in enumerate(module.operations(given[self.ranks[0]])):
            if say is not None:
                say(f"{name}: {operation}")
            going = [rank for rank in self.ranks if timeouts[rank] < GIVE_UP_AFTER]
            found += [
                _missing(name, operation, rank, "skipped", f"{GIVE_UP_AFTER} operations before it timed out")
                for rank in self.ranks if rank not in going
            ]  # fmt: skip
            answers = self._each(
                going, f"preflight.investigate.probes.{name}:measure", self.setup.deadline,
                lambda rank, number=number, operation=operation: {  # type: ignore[misc]
                    "operation": operation, "settings": {**given[rank], "group": f"{name}/{number}/{operation}"}},
            )  # fmt: skip
            for rank in going:
                timeouts[rank] += isinstance(answers[rank], TimedOut)
                found += _measurements(name, operation, rank, answers[rank])
        return found

    def _settings(self, name: str, rank: int) -> dict[str, Any]:
        """Return what one rank is told."""
        setup, local = self.setup, int(os.environ.get("LOCAL_RANK", "0")) if len(self.ranks) == 1 else rank
        given: dict[str, Any] = {
            "rank": rank, "world": self.world, "local_rank": local, "endpoint": list(self.endpoint),
            "device": f"cuda:{local}" if self.device == "cuda" else "cpu", "warm_up": setup.warm_up,
            "backend": "nccl" if self.device == "cuda" else "gloo", "repeats": setup.repeats, "seconds": setup.seconds,
            "join_seconds": max(setup.deadline * 0.8, 1.0),
            "largest": setup.largest or ((256 << 20) if self.device == "cuda" else (4 << 20)),
            **setup.settings.get(name, {}),
        }  # fmt: skip
        if name in STRUCK["slow-rank"] and rank in setup.inject.get("slow-rank", ()):
            given["slow"] = SLOW_FACTOR
        if name == "loading" and rank in setup.inject.get("slow-loader", ()):
            given["delay"] = SLOW_DELAY
        if name == "memory" and rank in setup.inject.get("bit-flip", ()):
            given["flip"] = True
        link = setup.inject.get("slow-link")
        if name == "collectives" and link:
            given.update(slow_links=[list(link)], link_delay=SLOW_DELAY)
        return given

    def _each(
        self, ranks: Sequence[int], where: str, seconds: float, given: Callable[[int], dict[str, Any]]
    ) -> dict[int, Any]:
        """Ask all ranks at once; an answer is what came back, or the failure."""
        from concurrent.futures import ThreadPoolExecutor

        def ask(rank: int) -> Any:
            try:
                return self.workers[rank].ask(where, seconds, **given(rank))
            except Failed as error:
                return error

        if not ranks:
            return {}
        with ThreadPoolExecutor(len(ranks)) as pool:
            return dict(zip(ranks, pool.map(ask, ranks), strict=True))


def _own(rank: int, world: int) -> dict[str, str]:
    return {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world)}


def _missing(name: str, operation: str, rank: int | None, outcome: Outcome, reason: str) -> Measurement:
    return Measurement(
        probe=name, name=operation, unit="", better="smaller", outcome=outcome, rank=rank, reason=reason, node=_node()
    )


def _node() -> str:
    import platform

    return platform.node()


def _measurements(name: str, operation: str, rank: int, answer: Any) -> list[Measurement]:
    """Return the rows of one operation, or how it failed."""
    if isinstance(answer, Failed):
        return [_missing(name, operation, rank, "timeout" if isinstance(answer, TimedOut) else "failed", str(answer))]
    found = []
    for row in answer:
        value, low, high = summary(row["samples"])
        details: dict[str, Scalar] = dict(row["details"])
        found.append(
            Measurement(
                probe=name,
                name=row["name"],
                unit=row["unit"],
                better=row["better"],
                value=value,
                low=low,
                high=high,
                repeats=len(row["samples"]),
                rank=rank,
                node=_node(),
                peer=row.get("peer"),
                details=details,
            )
        )
        flops = details.get("flops")
        if isinstance(flops, (int, float)) and row["unit"] == "s" and low and high:
            found.append(
                msgspec.structs.replace(
                    found[-1],
                    name=f"{row['name']} rate",
                    unit="FLOP/s",
                    better="larger",
                    value=flops / value,
                    low=flops / high,
                    high=flops / low,
                    details={"of": row["name"]},
                )
            )
    return found
