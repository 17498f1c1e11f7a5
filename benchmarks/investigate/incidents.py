"""Makes incidents: folders of logs of many ranks, with a known culprit and a known cause.

Layouts, clocks of the nodes, what is logged and by whom, and how the failure spreads are drawn from a seed.
The texts are those that PyTorch, NCCL, gloo, Slurm and the kernel print.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from incident_kinds import KINDS
from incident_lines import abort, agent_tells, gloo_closed, kernel, nccl_lines, remote_error, traceback, watchdog
from incident_run import LAYOUTS, Run, Truth, begin, pre, write

MASKED = 1_760_000_000.0

ERRORS: tuple[tuple[str, tuple[str, int, str, str], str], ...] = (
    ("usercode", ("/opt/job/model.py", 88, "forward", "return self.proj(x)"),
     "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x512 and 768x512)"),
    ("usercode", ("/opt/job/loss.py", 31, "compute", "return logits[mask]"),
     "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"),
    ("data", ("/opt/job/dataset.py", 45, "__getitem__", "return self.rows[index]"),
     "IndexError: list index out of range"),
    ("data", ("/opt/job/dataset.py", 61, "__getitem__", "image = Image.open(path)"),
     "PIL.UnidentifiedImageError: cannot identify image file '/data/shard-0042/000913.jpg'"),
    ("oom", ("/opt/job/model.py", 92, "forward", "return torch.softmax(scores, -1)"),
     "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.15 GiB of "
     "which 1.02 GiB is free. Including non-PyTorch memory, this process has 78.12 GiB memory in use."),
    ("checkpoint", ("/opt/job/saving.py", 77, "save", "torch.save(state, path)"),
     "OSError: [Errno 28] No space left on device: '/checkpoints/step-500/rank.pt'"),
    ("usercode", ("/opt/job/train.py", 150, "step", "assert labels.max() < classes"),
     "AssertionError: label 1001 is out of range"),
)  # fmt: skip


def spread(run: Run, gone: set[int], how: str, codes: dict[int, int], table_first: bool = True) -> None:
    """Let the failure of some ranks reach the others, in one of the ways in which that happens."""
    others = [rank for rank in range(run.world) if rank not in gone]
    run.random.shuffle(others)
    seconds = run.random.choice((60, 300, 600))
    if how == "watchdog":
        done = run.step * 4
        for rank in others:
            watchdog(run, rank, seconds, done + 2, done, seconds + run.random.uniform(0, 2))
            abort(run, rank, seconds + 2 + run.random.uniform(0, 1))
        run.now += seconds + 3
        tail = dict.fromkeys(others, -6)
    elif how == "gloo":
        peer = next(iter(gone))
        for rank in others:
            gloo_closed(run, rank, peer if run.random.random() < 0.6 else run.random.choice([peer, *others]),
                        run.random.uniform(0.02, 0.6))  # fmt: skip
        tail = dict.fromkeys(others, 1)
    elif how == "remote":
        for rank in others:
            remote_error(run, rank, run.random.uniform(0.05, 1.0))
        tail = dict.fromkeys(others, 1)
    else:
        tail = {}
    told = {**codes, **tail} if table_first else {**tail, **codes}
    if codes or tail:
        agent_tells(run, told)


def error_on_one(run: Run, truth: Truth) -> None:
    """One rank raises; the others follow in one of four ways."""
    rank = run.random.randrange(run.world)
    category, frame, text = run.random.choice(ERRORS)
    run.now += 0.3
    traceback(run, rank, frame, text)
    truth.culprits, truth.nodes, truth.categories = (rank,), (run.node(rank),), (category,)
    how = run.random.choice(("watchdog", "gloo", "remote", "stopped"))
    truth.name += f"-{how}"
    spread(run, {rank}, how, {rank: 1}, table_first=run.random.random() < 0.6)


def killed(run: Run, truth: Truth) -> None:
    """One rank is killed and cannot say a word."""
    rank = run.random.randrange(run.world)
    run.silent.add(rank)
    run.now += 0.5
    truth.culprits, truth.nodes, truth.categories = (rank,), (run.node(rank),), ("oom", "preemption", "other")
    spread(run, {rank}, run.random.choice(("gloo", "remote")), {rank: -9}, table_first=run.random.random() < 0.6)


def segfault(run: Run, truth: Truth) -> None:
    """One rank ends in native code."""
    rank = run.random.randrange(run.world)
    run.silent.add(rank)
    run.now += 0.5
    truth.culprits, truth.nodes, truth.categories = (
        (rank,),
        (run.node(rank),),
        ("other", "usercode", "environment", "hardware"),
    )
    spread(run, {rank}, run.random.choice(("gloo", "remote", "stopped")), {rank: -11})


def stopped(run: Run, truth: Truth) -> None:
    """One rank stands still; the watchdogs of all others fire, and its own process is killed with the rest."""
    rank = run.random.randrange(run.world)
    run.silent.add(rank)
    truth.culprits, truth.nodes, truth.categories = (
        (rank,),
        (run.node(rank),),
        ("network", "usercode", "other", "cannot-tell"),
    )
    others = [one for one in range(run.world) if one != rank]
    done = run.step * 4
    for one in others:
        watchdog(run, one, 600, done + 2, done, 600 + run.random.uniform(0, 2))
        abort(run, one, 602.5)
    run.now += 604
    agent_tells(run, dict.fromkeys(others, -6))


def behind(run: Run, truth: Truth) -> None:
    """One rank skips a collective: all watchdogs fire, and its own counters are behind."""
    rank = run.random.randrange(run.world)
    truth.culprits, truth.nodes, truth.categories = (rank,), (run.node(rank),), ("network", "usercode")
    done = run.step * 4
    for one in range(run.world):
        missed = 3 if one == rank else 0
        watchdog(run, one, 300, done + 5 - missed, done - missed, 300 + run.random.uniform(0, 2))
        abort(run, one, 302.5)
    run.now += 304
    agent_tells(run, dict.fromkeys(run.random.sample(range(run.world), run.world), -6))


def node_lost(run: Run, truth: Truth) -> None:
    """A node goes away with all its ranks."""
    node = run.random.choice(run.nodes)
    gone = {rank for rank in range(run.world) if run.node(rank) == node}
    run.silent |= gone
    run.now += 0.5
    truth.culprits, truth.nodes = tuple(sorted(gone)), (node,)
    truth.categories = ("network", "hardware", "other", "cannot-tell", "preemption")
    others = [rank for rank in range(run.world) if rank not in gone]
    for rank in others:
        remote_error(run, rank, run.random.uniform(0.1, 3.0))
    run.now += 4
    agent_tells(run, dict.fromkeys(others, 1))


def xid(run: Run, truth: Truth) -> None:
    """A card falls off the bus; the kernel of its node says so."""
    rank = run.random.randrange(run.world)
    node = run.node(rank)
    run.now += 0.4
    bus = f"0000:{0x1B + 16 * (rank % run.per_node):02x}:00"
    when = datetime.fromtimestamp(run.now + run.offsets[node], timezone.utc)
    code, text = run.random.choice(((79, "GPU has fallen off the bus."), (48, "DBE (double bit error) on partition 3"),
                                    (95, "Uncontained ECC error")))  # fmt: skip
    run.extra[f"dmesg-{node}.log"] = [
        f"[{when:%a %b %d %H:%M:%S %Y}] usb 1-1: new high-speed USB device number 2 using xhci_hcd",
        f"[{when:%a %b %d %H:%M:%S %Y}] NVRM: Xid (PCI:{bus}): {code}, pid={run.pids[rank]}, name=python, {text}",
    ]
    traceback(run, rank, ("/opt/job/train.py", 180, "step", "loss.backward()"),
              "RuntimeError: CUDA error: unspecified launch failure")  # fmt: skip
    truth.culprits, truth.nodes, truth.categories = (rank,), (node,), ("hardware",)
    spread(run, {rank}, run.random.choice(("watchdog", "remote")), {rank: 1})


def host_oom(run: Run, truth: Truth) -> None:
    """The kernel of a node kills the process of one rank; the agents see nothing of why."""
    nccl_lines(run)
    run.steps(run.random.randint(3, 9))
    rank = run.random.randrange(run.world)
    run.now += 0.4
    kernel(
        run,
        run.node(rank),
        f"Out of memory: Killed process {run.pids[rank]} (python) total-vm:98412344kB, "
        "anon-rss:61234567kB, file-rss:1024kB, shmem-rss:2048kB, UID:1000 pgtables:1200kB oom_score_adj:0",
    )
    run.silent.add(rank)
    truth.culprits, truth.nodes, truth.categories = (rank,), (run.node(rank),), ("oom",)
    spread(run, {rank}, run.random.choice(("gloo", "remote")), {}, table_first=True)


def bus(run: Run, truth: Truth) -> None:
    """A card fails; the kernel knows its place on the bus and no process, NCCL told which rank it is."""
    nccl_lines(run)
    run.steps(run.random.randint(3, 9))
    rank = run.random.randrange(run.world)
    place = f"0000:{0x1B + 16 * (rank % run.per_node):02x}:00"
    run.now += 0.4
    kernel(
        run,
        run.node(rank),
        f"NVRM: Xid (PCI:{place}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    )
    run.silent.add(rank)
    truth.culprits, truth.nodes, truth.categories = (rank,), (run.node(rank),), ("hardware",)
    spread(run, {rank}, "watchdog", {})


def distracted(run: Run, truth: Truth) -> None:
    """Another rank reads a bad sample and goes on; then one fails for good."""
    other = run.random.randrange(run.world)
    traceback(run, other, ("/opt/job/dataset.py", 61, "__getitem__", "image = Image.open(path)"),
              "PIL.UnidentifiedImageError: cannot identify image file '/data/shard-0007/000013.jpg'")  # fmt: skip
    run.say(other, f"{pre(run, other)}WARNING sample 13 is skipped")
    run.steps(run.random.randint(10, 20))
    error_on_one(run, truth)


def common(run: Run, truth: Truth) -> None:
    """Every rank meets the same error at the same time: a file that is not there, a full file system, a wrong setting."""
    kind = run.random.choice((
        ("data", ("/opt/job/dataset.py", 12, "open_index", "return open(path)"),
         "FileNotFoundError: [Errno 2] No such file or directory: '/data/index.json'"),
        ("environment", ("/opt/job/train.py", 3, "<module>", "import flash_attn"),
         "ModuleNotFoundError: No module named 'flash_attn'"),
        ("checkpoint", ("/opt/job/saving.py", 51, "load", "model.load_state_dict(state)"),
         "RuntimeError: Error(s) in loading state_dict for Transformer:"),
        ("numerical", ("/opt/job/train.py", 140, "step", "raise ValueError(message)"),
         "ValueError: loss is nan, stopping training"),
    ))  # fmt: skip
    run.now += 0.3
    ranks = run.random.sample(range(run.world), run.world)
    for rank in ranks:
        traceback(run, rank, kind[1], kind[2], run.random.uniform(0, 0.2))
    truth.culprits, truth.nodes, truth.categories, truth.common = (), (), (kind[0],), True
    if kind[0] == "data":
        truth.categories = ("data", "environment")
    agent_tells(run, dict.fromkeys(ranks, 1))


def barrier(run: Run, truth: Truth) -> None:
    """A monitored barrier names who did not come."""
    rank = run.random.randrange(1, run.world)
    run.silent.add(rank)
    text = (f"RuntimeError: Rank {rank} failed to pass monitoredBarrier in 30000 ms\n"
            " Original exception:\n[../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 30000ms "
            "for recv operation to complete")  # fmt: skip
    run.now += 30
    traceback(run, 0, ("/opt/job/train.py", 99, "sync", "dist.monitored_barrier(timeout=limit)"), text)
    for one in range(1, run.world):
        if one != rank:
            gloo_closed(run, one, 0, run.random.uniform(0.1, 0.8))
    truth.culprits, truth.nodes, truth.categories = (
        (rank,),
        (run.node(rank),),
        ("network", "usercode", "other", "cannot-tell"),
    )
    agent_tells(run, {one: 1 for one in range(run.world) if one != rank})


def node_storage(run: Run, truth: Truth) -> None:
    """The storage of one node goes stale under all its ranks."""
    node = run.random.choice(run.nodes)
    gone = [rank for rank in range(run.world) if run.node(rank) == node]
    run.now += 0.2
    for rank in gone:
        traceback(run, rank, ("/opt/job/saving.py", 77, "save", "torch.save(state, path)"),
                  "OSError: [Errno 116] Stale file handle: '/checkpoints/step-90/rank.pt'",
                  run.random.uniform(0, 0.1))  # fmt: skip
    truth.culprits, truth.nodes, truth.categories = tuple(gone), (node,), ("checkpoint",)
    run.now += 1
    spread(run, set(gone), "remote", dict.fromkeys(gone, 1))


def preempted(run: Run, truth: Truth) -> None:
    """The scheduler takes the job away."""
    run.now += 0.5
    for node in run.nodes:
        stamp = datetime.fromtimestamp(run.now + run.offsets[node], timezone.utc)
        run.agent(node, f"slurmstepd: error: *** STEP 4711.0 ON {node} CANCELLED AT {stamp:%Y-%m-%dT%H:%M:%S} DUE TO "
                        "PREEMPTION ***", 0.1)  # fmt: skip
        torch = run.stamp(run.now + 0.3, node, "torch")
        run.agent(node, f"W{torch} 1200 torch/distributed/elastic/agent/server/api.py:704] Received 15 death signal, "
                        "shutting down workers", 0.3)  # fmt: skip
        for rank in range(run.world):
            if run.node(rank) == node:
                run.agent(node, f"W{torch} 1200 torch/distributed/elastic/multiprocessing/api.py:900] Sending process "
                                f"{run.pids[rank]} closing signal SIGTERM", 0.4)  # fmt: skip
    truth.culprits, truth.nodes, truth.categories, truth.common = (), (), ("preemption",), True


def healthy(run: Run, truth: Truth) -> None:
    """Nothing happens but what looks like trouble and is none."""
    kind = run.random.choice(("overflow", "retry", "warning", "plain"))
    truth.name += f"-{kind}"
    rank = run.random.randrange(run.world)
    if kind == "overflow":
        for one in range(run.world):
            run.say(
                one,
                f"{pre(run, one)}INFO Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0",
            )
    elif kind == "retry":
        traceback(run, rank, ("/opt/job/dataset.py", 61, "__getitem__", "image = Image.open(path)"),
                  "PIL.UnidentifiedImageError: cannot identify image file '/data/shard-0042/000913.jpg'")  # fmt: skip
        run.say(rank, f"{pre(run, rank)}WARNING sample 913 is skipped")
    elif kind == "warning":
        run.say(rank, f"{pre(run, rank)}UserWarning: Detected call of `lr_scheduler.step()` before `optimizer.step()`.")
    run.steps(run.random.randint(12, 40))
    truth.culprits, truth.nodes, truth.categories, truth.healthy = (), (), ("none",), True
    truth.states = ("running", "ended")
    if run.random.random() < 0.5:
        for one in range(run.world) if run.every_rank else (0,):
            run.say(one, f"{pre(run, one)}INFO Training finished")


FAULTS: dict[str, Callable[[Run, Truth], None]] = {
    "error": error_on_one, "killed": killed, "segfault": segfault, "stopped": stopped, "behind": behind,
    "node-lost": node_lost, "xid": xid, "common": common, "barrier": barrier, "node-storage": node_storage,
    "preempted": preempted, "healthy": healthy, "host-oom": host_oom, "bus": bus, "distracted": distracted,
}  # fmt: skip


def make(seed: int, folder: Path, fault: str | None = None) -> Truth:
    """Write one incident into a folder and return what is to be found in it."""
    draw = random.Random(seed)
    name = fault or list(FAULTS)[seed % len(FAULTS)]
    per_node = draw.choice((2, 4, 8))
    nodes = draw.choice((2, 2, 3, 4)) if name in ("node-lost", "node-storage") else draw.choice((1, 2, 2, 4))
    layout = LAYOUTS[(seed // len(FAULTS) + seed) % len(LAYOUTS)]
    timed = layout != "torchrun" or draw.random() < 0.8
    names = [f"node{number:02d}" for number in range(nodes)]
    skewed = draw.random() < 0.6 and nodes > 1
    offsets = {node: draw.uniform(-20, 20) if skewed and node != names[0] else 0.0 for node in names}
    run = Run(
        random=draw, world=per_node * nodes, per_node=per_node, layout=layout, timed=timed,
        whole_seconds=draw.random() < 0.3, offsets=offsets, start=MASKED, every_rank=draw.random() < 0.7, now=MASKED,
    )  # fmt: skip
    truth = Truth(name, (), (), (), offsets=offsets, layout=layout)
    begin(run)
    if draw.random() < 0.25 and name != "healthy":
        truth.attempts = 2
        run.steps(draw.randint(5, 20))
        before = Truth(name, (), (), ())
        error_on_one(run, before)
        run.now += 30
        run.attempt, run.silent = 1, set()
        for node in run.nodes:
            stamp = run.stamp(run.now, node, "torch")
            run.agent(node, f"I{stamp} 1200 torch/distributed/elastic/agent/server/api.py:915] [default] Worker group FAILED. "
                            "2/3 attempts left; will restart worker group")  # fmt: skip
        run.step = max(run.step - 4, 0)
        begin(run)
    run.steps(draw.randint(15, 60) if draw.random() < 0.8 else 0)
    FAULTS[name](run, truth)
    write(run, folder)
    return truth


OF_FOUR = ("slow-reader", "cut-short", "disk-full", "broken-shard", "no-memory", "said-and-left")
"""Of two that differ none is the slow one, and nothing tells labels of two writers from counters."""


def make_kind(seed: int, folder: Path, kind: str, layout: str) -> Truth:
    """Write one incident of a kind that no seed draws into a folder and return what is to be found in it."""
    draw = random.Random(seed)
    per_node = draw.choice((2, 4)) if kind not in OF_FOUR else 4
    nodes = draw.choice((1, 2)) if kind != "no-interface" else 2
    offsets = {f"node{number:02d}": 0.0 for number in range(nodes)}
    run = Run(
        random=draw, world=per_node * nodes, per_node=per_node, layout=layout, timed=True, whole_seconds=False,
        offsets=offsets, start=MASKED, every_rank=True, now=MASKED,
    )  # fmt: skip
    truth = Truth(kind, (), (), (), offsets=offsets, layout=layout)
    begin(run)
    if kind not in ("store-of-nobody", "no-interface"):
        run.steps(draw.randint(6, 20))
    KINDS[kind][0](run, truth)
    write(run, folder)
    return truth


if __name__ == "__main__":
    print(make(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None))
