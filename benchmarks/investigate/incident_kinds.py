"""More kinds of incidents, of real runs that were told wrongly once: what one rank alone meets, and what only seems to be of one.

They are made by name and not drawn, so that a seed goes on making what it made.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from incident_lines import agent_tells, gloo_closed, traceback
from incident_run import Run, Truth, pre

LOOP = ("/opt/job/train.py", 61, "epoch", "for batch in loader:")
SYNC = ("/opt/job/train.py", 99, "sync", "dist.monitored_barrier(timeout=limit)")
SAVE = ("/opt/job/train.py", 118, "save", "torch.save(state, path)")
LOAD = ("/opt/job/train.py", 34, "resume", "torch.load(path)")
START = ("/opt/job/train.py", 20, "start", 'dist.init_process_group("gloo")')


def _others_close(run: Run, rank: int) -> None:
    """Let all other ranks lose a connection, and the launcher tell of the end of all."""
    others = [one for one in range(run.world) if one != rank]
    run.random.shuffle(others)
    for one in others:
        gloo_closed(run, one, rank, run.random.uniform(0.02, 0.6))


def loader_gone(run: Run, truth: Truth) -> None:
    """A loader worker of one rank ends, and torch knows no more of it than that."""
    rank = run.random.randrange(run.world)
    run.now += 0.3
    traceback(run, rank, LOOP, f"RuntimeError: DataLoader worker (pid(s) {41_000 + rank}) exited unexpectedly")
    truth.culprits, truth.nodes, truth.categories = (rank,), (run.node(rank),), ("data", "oom")
    _others_close(run, rank)
    agent_tells(run, {rank: 1})


def answered_in_vain(run: Run, truth: Truth) -> None:
    """The first rank gives up a watched barrier for one that is late; all others tell of the first one."""
    rank = run.random.randrange(1, run.world)
    run.now += 5
    traceback(run, 0, SYNC, f"RuntimeError: Rank {rank} failed to pass monitoredBarrier in 5000 ms")
    for one in range(1, run.world):
        lost = (
            f"RuntimeError: Rank {one} successfully reached monitoredBarrier, but received errors while waiting for send/recv "
            "from rank 0. Please check rank 0 logs for faulty rank."
        )
        if one != rank:
            traceback(run, one, SYNC, lost, run.random.uniform(0.05, 0.5))
    run.now += 6
    gloo_closed(run, rank, 0)
    truth.culprits, truth.nodes = (rank,), (run.node(rank),)
    truth.categories = ("network", "usercode", "other", "cannot-tell")


def store_of_nobody(run: Run, truth: Truth) -> None:
    """The store is a process of its own, and is not there: no rank reaches it, each after it has waited for as long."""
    for rank in run.random.sample(range(run.world), run.world):
        run.now += run.random.uniform(1.5, 4.0)
        stamp = run.stamp(run.now, run.node(rank), "torch")
        run.say(rank, f"[E{stamp} socket.cpp:1028] [c10d] The client socket has timed out after 15000ms while trying to "
                      "connect to (10.0.0.1, 29500).")  # fmt: skip
    truth.culprits, truth.nodes, truth.categories, truth.common = (), (), ("network", "environment"), True


def no_interface(run: Run, truth: Truth) -> None:
    """On one node there is no interface of the name that is given; the others wait for its ranks."""
    node = run.nodes[-1]
    gone = tuple(rank for rank in range(run.world) if run.node(rank) == node)
    for rank in gone:
        traceback(run, rank, START, "RuntimeError: Unable to find address for: ib0", run.random.uniform(0, 0.2))
    run.now += 10
    for rank in set(range(run.world)) - set(gone):
        waits = f"wait timeout after 10000ms, keys: /default_pg/0//cpu//0/{gone[0]}"
        traceback(run, rank, START, f"torch.distributed.DistStoreError: {waits}", run.random.uniform(0, 0.5))
    truth.culprits, truth.nodes, truth.categories = gone, (node,), ("network", "environment")


def slow_reader(run: Run, truth: Truth) -> None:
    """One rank waits for its data at every step, and says so in the fields of its lines; the run ends as it should."""
    rank = run.random.randrange(run.world)
    run.rows.clear()
    run.attempts_of_rows.clear()
    for step in range(1, 41):
        run.now += 0.45
        for one in range(run.world):
            own = 0.4 if one == rank else 0.001
            line = {"ts": f"{run.now + run.random.uniform(0, 0.02):.6f}", "level": "info", "rank": one, "msg": "train"}
            values = {"step": step, "loss": 2.3, "data_s": round(own * run.random.uniform(0.9, 1.1), 5),
                      "compute_s": round((0.41 - own) * run.random.uniform(0.9, 1.1), 5)}  # fmt: skip
            run.say(one, json.dumps({**line, **values}))
    truth.culprits, truth.nodes, truth.categories, truth.states = (rank,), (), ("data",), ("slow",)


def left_without_a_word(run: Run, truth: Truth) -> None:
    """One rank ends by itself with a sentence that names no error; its launcher tells of nothing."""
    rank = run.random.randrange(run.world)
    run.say(rank, f"{pre(run, rank)}licence server refused the token")
    run.silent.add(rank)
    run.now += 0.5
    _others_close(run, rank)
    truth.culprits, truth.nodes, truth.categories = (rank,), (run.node(rank),), ("network", "other", "cannot-tell")


def cut_short(run: Run, truth: Truth) -> None:
    """One rank raises an exception of its own, one of the others tells of it, and the rest is stopped before it can."""
    rank = run.random.randrange(run.world)
    traceback(run, rank, LOOP, "IndexError: index 51 is out of bounds for dimension 0 with size 50")
    gloo_closed(run, (rank + 1) % run.world, rank, run.random.uniform(0.3, 0.9))
    truth.culprits, truth.nodes, truth.categories = (rank,), (run.node(rank),), ("usercode", "data")


def disk_full(run: Run, truth: Truth) -> None:
    """The disk of one rank is full when it writes its part of a checkpoint."""
    _of_one(run, truth, SAVE, "OSError: [Errno 28] No space left on device", ("checkpoint", "environment", "data"))


def broken_shard(run: Run, truth: Truth) -> None:
    """One rank cannot read its part of a checkpoint."""
    last = "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory"
    _of_one(run, truth, LOAD, last, ("checkpoint", "data"))


def no_memory(run: Run, truth: Truth) -> None:
    """The memory of the host of one rank does not hold a tensor."""
    last = "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 42949672960 bytes. Error code 12 (Cannot allocate memory)"
    _of_one(run, truth, LOOP, last, ("oom",))


def said_and_left(run: Run, truth: Truth) -> None:
    """One rank logs what went wrong without a traceback, and leaves."""
    rank = run.random.randrange(run.world)
    run.say(rank, f"{pre(run, rank)}ERROR step {run.step} failed: decoder returned no frames for clip_00412.mp4")
    run.silent.add(rank)
    run.now += 0.5
    _others_close(run, rank)
    truth.culprits, truth.nodes = (rank,), (run.node(rank),)
    truth.categories = ("data", "usercode", "network", "other", "cannot-tell")


def _of_one(run: Run, truth: Truth, frame: tuple[str, int, str, str], last: str, categories: tuple[str, ...]) -> None:
    rank = run.random.randrange(run.world)
    traceback(run, rank, frame, last)
    truth.culprits, truth.nodes, truth.categories = (rank,), (run.node(rank),), categories
    _others_close(run, rank)


FOREIGN = ("sets", "fields", "places", "processes")
KINDS: dict[str, tuple[Callable[[Run, Truth], None], tuple[str, ...]]] = {
    "loader-gone": (loader_gone, ("prefixed", "journal", "numbered")),
    "answered-in-vain": (answered_in_vain, ("ranks", "journal", "tagged")),
    "store-of-nobody": (store_of_nobody, ("ranks", "srun", "tagged")),
    "no-interface": (no_interface, ("ranks", "numbered", "srun")),
    "slow-reader": (slow_reader, ("bare",)),
    "left-without-a-word": (left_without_a_word, ("tagged", "numbered", "srun")),
    "cut-short": (cut_short, FOREIGN),
    "disk-full": (disk_full, FOREIGN),
    "broken-shard": (broken_shard, FOREIGN),
    "no-memory": (no_memory, FOREIGN),
    "said-and-left": (said_and_left, FOREIGN),
}
"""Each with the layouts in which it is made: what is known of a rank is not the same in all of them."""
