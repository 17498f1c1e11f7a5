"""Play the tournament: as one rank of a launched job, or with ranks of one's own; bounded whatever dies on the way."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from preflight.investigate.liveness.board import endpoint_of
from preflight.investigate.topology.schedule import Pair, sampled
from preflight.investigate.workers.worker import Failed, TimedOut, Worker

STARTING = 120.0
MEETING = "preflight.investigate.topology.meeting"
SLOW_DELAY, DIES_AFTER = 0.2, 0.3
"""For demonstration: seconds that each exchange over a slow link takes longer, and after which a rank is killed that is to
die in the middle of a meeting."""


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """How the tournament is played.

    Attributes:
        python: The interpreter that trains.
        ranks: Ranks of one's own to start; None: this rank of a launched job.
        device: ``cpu`` or ``cuda``.
        sizes: Bytes of the blocks that go back and forth.
        repeats: How often, after warm-up. warm_up: How often before.
        deadline: Seconds for a meeting, and of silence after which a rank is absent.
        starting: Seconds until a rank that has not come is taken to never come.
        most_rounds: More rounds than these are thinned out; everybody meets as many others.
        per_node: With ranks of one's own: so many are taken for a node.
        slow_links: Pairs to slow down, for demonstration. slow_nodes: The same of nodes. dead_ranks: Ranks to kill midway.
    """

    python: str
    ranks: int | None = None
    device: str = "cpu"
    sizes: tuple[int, ...] = (8, 1 << 20)
    repeats: int = 10
    warm_up: int = 3
    deadline: float = 20.0
    starting: float = 60.0
    most_rounds: int = 63
    per_node: int | None = None
    slow_links: tuple[Pair, ...] = ()
    slow_nodes: tuple[str, ...] = ()
    dead_ranks: tuple[int, ...] = ()


class Meeting(msgspec.Struct, frozen=True, kw_only=True):
    """How one rank saw a meeting with another.

    Attributes:
        rank: Who tells. peer: Whom it met.
        outcome: ``done``, ``failed``, ``absent`` (the peer was not there), ``timeout`` (this side did not come back).
        times: Seconds one way for each repeat, by size.
        wrong: Values that came back wrong.
    """

    rank: int
    peer: int
    outcome: str
    times: dict[str, list[float]] = {}
    wrong: int = 0
    reason: str | None = None


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """What the tournament gave.

    Attributes:
        world: How many ranks there should be.
        hosts: The host of each rank that came.
        meetings: What each rank saw.
        told: The ranks that handed in results.
    """

    world: int
    hosts: dict[int, str]
    meetings: tuple[Meeting, ...]
    told: tuple[int, ...]


def play(match: Match, say: Callable[[str], None] | None = None) -> Played:
    """Play, and return what all ranks saw."""
    if match.ranks is None:
        world, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
        run = f"preflight/topology/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
        return _Player(match, rank, world, endpoint_of(None), run, None).play(say)
    keeper = Worker(match.python)
    try:
        port = int(keeper.ask("preflight.investigate.workers.group:keep", STARTING))
        return _all(match, match.ranks, ("127.0.0.1", port), say)
    finally:
        keeper.kill()


def _all(match: Match, world: int, endpoint: tuple[str, int], say: Callable[[str], None] | None) -> Played:
    """Play all ranks from here; pairs meet as many at once as there are processors for them."""
    turns = _Turns(max(1, (os.cpu_count() or 2) // 2))
    players = [_Player(match, rank, world, endpoint, "preflight/topology/own", turns) for rank in range(world)]
    results: dict[int, Played] = {}

    def go(player: _Player) -> None:
        results[player.rank] = player.play(say if player.rank == 0 else None)

    threads = [threading.Thread(target=go, args=(player,), daemon=True) for player in players]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alive = [result for rank, result in sorted(results.items()) if rank in result.told]
    return alive[0] if alive else Played(world=world, hosts={}, meetings=(), told=())


class _Turns:
    """Lets only so many pairs meet at once where all ranks share this machine's processors.

    A turn is taken when both of a pair have come, so that nobody holds one while it waits; or when the other has left.
    """

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._changed = threading.Condition()
        self._here: dict[tuple[int, Pair], set[int]] = {}
        self._going: set[tuple[int, Pair]] = set()
        self._left: set[int] = set()

    def leave(self, rank: int) -> None:
        """Say that a rank plays no more."""
        with self._changed:
            self._left.add(rank)
            self._changed.notify_all()

    def begin(self, step: int, pair: Pair, rank: int) -> None:
        """Wait for the turn of this pair."""
        key = (step, pair)
        with self._changed:
            self._here.setdefault(key, set()).add(rank)
            self._changed.notify_all()
            self._changed.wait_for(lambda: key in self._going or (self._free > 0 and self._complete(key)))
            if key not in self._going:
                self._going.add(key)
                self._free -= 1

    def _complete(self, key: tuple[int, Pair]) -> bool:
        return set(key[1]) <= self._here[key] | self._left

    def end(self, step: int, pair: Pair, rank: int) -> None:
        """Give the turn back when the last of the two that came has ended."""
        key = (step, pair)
        with self._changed:
            self._here[key].discard(rank)
            if not self._here[key]:
                self._free += 1
            self._changed.notify_all()


class _Player:
    """One rank's way through the tournament."""

    def __init__(
        self, match: Match, rank: int, world: int, endpoint: tuple[str, int], run: str, turns: _Turns | None
    ) -> None:
        self.match, self.rank, self.world, self.endpoint, self.run, self.turns = (
            match,
            rank,
            world,
            endpoint,
            run,
            turns,
        )
        own = {"RANK": str(rank), "WORLD_SIZE": str(world)} if turns else {}
        self.worker = Worker(match.python, own)

    def play(self, say: Callable[[str], None] | None) -> Played:
        """Arrive, meet everybody, hand in, collect."""
        match = self.match
        try:
            self._ask("arrive", STARTING, **self._arrival())
            hosts = {int(rank): host for rank, host in self._ask("hosts", match.starting + STARTING, run=self.run, world=self.world,
                                                                 seconds=match.starting).items()}  # fmt: skip
            meetings = self._meetings(hosts, say)
            if self.rank in match.dead_ranks:
                return Played(world=self.world, hosts=hosts, meetings=(), told=())
            self._ask("arrive", STARTING, **self._arrival())  # a process that was replaced has to be heard of again
            self._ask("hand_in", match.deadline, run=self.run, rank=self.rank,
                      result=json.dumps([msgspec.to_builtins(one) for one in meetings]))  # fmt: skip
            wait = 3 * match.deadline + 5
            results = self._ask("collect", wait + 10, run=self.run, world=self.world, seconds=wait)
        except Failed:
            return Played(world=self.world, hosts={}, meetings=(), told=())
        finally:
            self.worker.kill()
            if self.turns is not None:
                self.turns.leave(self.rank)
        told = {int(rank): msgspec.json.decode(text, type=list[Meeting]) for rank, text in results.items()}
        every = tuple(one for _, rows in sorted(told.items()) for one in rows)
        return Played(world=self.world, hosts=hosts, meetings=every, told=tuple(sorted(told)))

    def _arrival(self) -> dict[str, Any]:
        return {"endpoint": self.endpoint, "run": self.run, "rank": self.rank, "host": self._host(),
                "seconds": self.match.deadline}  # fmt: skip

    def _host(self) -> str:
        import platform

        if self.turns is not None and self.match.per_node:
            return f"node{self.rank // self.match.per_node}"
        return platform.node()

    def _meetings(self, hosts: dict[int, str], say: Callable[[str], None] | None) -> list[Meeting]:
        rounds = sampled(dict.fromkeys(range(self.world), ""), self.match.most_rounds)
        found = []
        for step, pairs in enumerate(rounds):
            if say is not None:
                say(f"round {step + 1} of {len(rounds)}")
            pair = next((one for one in pairs if self.rank in one), None)
            if pair is None:
                continue
            dies = self.rank in self.match.dead_ranks and step >= len(rounds) // 2
            found.append(self._meet(step, pair, hosts, SLOW_DELAY * 5 if dies else self._delay(pair, hosts), dies))
            if dies:
                return found
        return found

    def _meet(self, step: int, pair: Pair, hosts: dict[int, str], delay: float, dies: bool = False) -> Meeting:
        match, peer = self.match, pair[0] if pair[1] == self.rank else pair[1]
        if peer not in hosts:
            return Meeting(rank=self.rank, peer=peer, outcome="absent", reason="never came")
        seen = {"rank": self.rank, "peer": peer}
        if self.turns is not None:
            self.turns.begin(step, pair, self.rank)
        try:
            self._ask("arrive", match.deadline + STARTING, **self._arrival())
            if dies and self.worker.pid is not None:  # not before: a worker that is gone while it waits is replaced
                threading.Timer(DIES_AFTER, os.kill, (self.worker.pid, signal.SIGKILL)).start()
            answer = self._ask(
                "meet", 4 * match.deadline + 5, endpoint=self.endpoint, run=self.run, step=step, rank=self.rank, peer=peer,
                sizes=list(match.sizes), repeats=match.repeats, warm_up=match.warm_up, seconds=match.deadline,
                backend="nccl" if match.device == "cuda" else "gloo", device=self._device(), delay=delay,
            )  # fmt: skip
            return msgspec.convert({**answer, **seen}, Meeting)
        except TimedOut as error:
            return Meeting(**seen, outcome="timeout", reason=str(error))  # type: ignore[arg-type]
        except Failed as error:
            return Meeting(**seen, outcome="failed", reason=str(error))  # type: ignore[arg-type]
        finally:
            if self.turns is not None:
                self.turns.end(step, pair, self.rank)

    def _device(self) -> int | None:
        if self.match.device != "cuda":
            return None
        return self.rank if self.turns is not None else int(os.environ.get("LOCAL_RANK", "0"))

    def _delay(self, pair: Pair, hosts: dict[int, str]) -> float:
        """Return what this meeting is slowed down by, for demonstration: a node is slow to others, not within itself."""
        nodes = {hosts.get(rank) for rank in pair}
        slow = pair in self.match.slow_links or (len(nodes) == 2 and bool(nodes & set(self.match.slow_nodes)))
        return SLOW_DELAY if slow else 0.0

    def _ask(self, what: str, seconds: float, /, **given: Any) -> Any:
        return self.worker.ask(f"{MEETING}:{what}", seconds, **given)


def as_pairs(text: Sequence[str]) -> tuple[Pair, ...]:
    """Return pairs of ``2-5``."""
    return tuple((min(a, b), max(a, b)) for a, b in (map(int, one.split("-")) for one in text))
