"""Makes incidents: folders of logs of many ranks, with a known culprit and a known cause.

Layouts, clocks of the nodes, what is logged and by whom, and how the failure spreads are drawn from a seed.
The texts are those that PyTorch, NCCL, gloo, Slurm and the kernel print.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

LAYOUTS = ("torchrun", "prefixed", "srun", "perhost", "pods", "ranks")
MASKED = 1_760_000_000.0


@dataclass
class Truth:
    """What is to be found."""

    name: str
    culprits: tuple[int, ...]
    nodes: tuple[str, ...]
    categories: tuple[str, ...]
    healthy: bool = False
    common: bool = False
    states: tuple[str, ...] = ()
    offsets: dict[str, float] = field(default_factory=dict)
    attempts: int = 1
    layout: str = ""


@dataclass
class Run:
    """A run whose lines are written down as it goes."""

    random: random.Random
    world: int
    per_node: int
    layout: str
    timed: bool
    whole_seconds: bool
    offsets: dict[str, float]
    start: float
    every_rank: bool
    attempt: int = 0
    rows: list[tuple[float, int | None, str | None, str]] = field(default_factory=list)
    extra: dict[str, list[str]] = field(default_factory=dict)
    step: int = 0
    now: float = 0.0
    pids: dict[int, int] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)
    attempts_of_rows: list[int] = field(default_factory=list)

    def node(self, rank: int) -> str:
        return f"node{rank // self.per_node:02d}"

    @property
    def nodes(self) -> list[str]:
        return sorted({self.node(rank) for rank in range(self.world)})

    def say(self, rank: int, text: str, delay: float = 0.0) -> None:
        """Let a rank print something; a line a moment after the other."""
        if rank in self.silent:
            return
        for number, line in enumerate(text.split("\n")):
            self.rows.append((self.now + delay + number * 1e-4, rank, self.node(rank), line))
            self.attempts_of_rows.append(self.attempt)

    def agent(self, node: str, text: str, delay: float = 0.0) -> None:
        """Let the agent of a node print something."""
        for number, line in enumerate(text.split("\n")):
            self.rows.append((self.now + delay + number * 1e-4, None, node, line))
            self.attempts_of_rows.append(self.attempt)

    def stamp(self, time: float, node: str | None, style: str) -> str:
        """Return a time as the clock of a node shows it."""
        shown = datetime.fromtimestamp(time + self.offsets.get(node or "", 0.0), timezone.utc)
        if style == "torch":
            return f"{shown:%m%d %H:%M:%S}.{shown.microsecond:06d}"
        if self.whole_seconds:
            return f"{shown:%Y-%m-%d %H:%M:%S}"
        return f"{shown:%Y-%m-%d %H:%M:%S},{shown.microsecond // 1000:03d}"

    def steps(self, number: int, seconds: float = 1.0) -> None:
        """Train for so many steps."""
        for _ in range(number):
            self.now += seconds * self.random.uniform(0.9, 1.1)
            self.step += 1
            loss = 8.0 / (1 + 0.05 * self.step) + self.random.gauss(0, 0.02)
            for rank in range(self.world) if self.every_rank else (0,):
                jitter = self.random.uniform(0, 0.03)
                stamp = f"{self.stamp(self.now + jitter, self.node(rank), 'python')} " if self.timed else ""
                self.say(rank, f"{stamp}INFO step {self.step} loss {loss:.4f} lr 3.0e-04 time {seconds:.3f}", jitter)


def begin(run: Run) -> None:
    """Let all ranks start."""
    run.now += 5
    for rank in range(run.world):
        run.pids[rank] = 20_000 + run.attempt * 1000 + rank * 7
        stamp = f"{run.stamp(run.now, run.node(rank), 'python')} " if run.timed else ""
        run.say(rank, f"{stamp}INFO rank {rank} of {run.world} is up on {run.node(rank)}, pid {run.pids[rank]}",
                run.random.uniform(0, 0.2))  # fmt: skip
    run.now += 3


def pre(run: Run, rank: int, delay: float = 0.0) -> str:
    """Return the date that a line of the rank's own logger bears."""
    return f"{run.stamp(run.now + delay, run.node(rank), 'python')} " if run.timed else ""


def traceback(run: Run, rank: int, frame: tuple[str, int, str, str], last: str, delay: float = 0.0) -> None:
    """Let a rank print an exception that nobody catches."""
    path, line, function, code = frame
    head = f"{pre(run, rank, delay)}ERROR training failed\n" if run.timed else ""
    run.say(rank, f'{head}Traceback (most recent call last):\n  File "/opt/job/train.py", line 214, in <module>\n    main()\n'
                  f'  File "{path}", line {line}, in {function}\n    {code}\n{last}', delay)  # fmt: skip


def watchdog(run: Run, rank: int, seconds: int, enqueued: int, completed: int, delay: float = 0.0) -> None:
    """Let a rank's watchdog tell of a collective that timed out."""
    tag = f"[rank{rank}]:"
    when = run.stamp(run.now + delay, run.node(rank), "torch")
    run.say(rank, (
        f"{tag}[E{when} ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught collective operation timeout: "
        f"WorkNCCL(SeqNum={completed + 1}, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, "
        f"Timeout(ms)={seconds * 1000}) ran for {seconds * 1000 + run.random.randint(5, 90)} milliseconds before timing out.\n"
        f"{tag}[E{when} ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Exception (either an error or "
        f"timeout) detected by watchdog at work: {completed + 1}, last enqueued NCCL work: {enqueued}, "
        f"last completed NCCL work: {completed}."), delay)  # fmt: skip


def abort(run: Run, rank: int, delay: float = 0.0) -> None:
    """Let a rank's watchdog end it."""
    run.say(rank, "terminate called after throwing an instance of 'c10::DistBackendError'", delay)


def gloo_closed(run: Run, rank: int, peer: int, delay: float = 0.0) -> None:
    """Let a rank tell that its gloo peer went away."""
    address = f"10.0.{peer // run.per_node}.{10 + peer % run.per_node}"
    text = (f"RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer "
            f"[{address}]:{30_000 + peer}")  # fmt: skip
    traceback(run, rank, ("/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", 2810,
                          "all_reduce", "work.wait()"), text, delay)  # fmt: skip


def remote_error(run: Run, rank: int, delay: float = 0.0) -> None:
    """Let a rank tell that NCCL lost its peer."""
    run.say(rank, (
        f"{run.node(rank)}:{run.pids[rank]}:{run.pids[rank] + 5} [{rank % run.per_node}] NCCL WARN "
        "socketProgress: Connection closed by remote peer 10.0.0.9<45678>"), delay)  # fmt: skip
    traceback(run, rank, ("/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", 2810,
                          "all_reduce", "work.wait()"), (
        "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:2006, "
        "unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5\n"
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely."),
        delay)  # fmt: skip


def agent_tells(run: Run, first: dict[int, int], delay: float = 1.0) -> None:
    """Let each agent stop what lives and print the table of what failed; ``first``: exit codes by rank, in order."""
    for node in run.nodes:
        mine = [rank for rank in range(run.world) if run.node(rank) == node]
        codes = {rank: code for rank, code in first.items() if rank in mine}
        stamp = run.stamp(run.now + delay, node, "torch")
        if not codes:
            continue
        for rank in mine:
            if rank not in codes:
                run.agent(node, f"W{stamp} 1200 torch/distributed/elastic/multiprocessing/api.py:900] Sending process "
                                f"{run.pids[rank]} closing signal SIGTERM", delay)  # fmt: skip
        bad = next(iter(codes))
        run.agent(node, f"E{stamp} 1200 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: "
                        f"{codes[bad]}) local_rank: {bad % run.per_node} (pid: {run.pids[bad]}) of binary: "
                        "/opt/venv/bin/python", delay + 0.4)  # fmt: skip
        shown = datetime.fromtimestamp(run.now + delay + run.offsets.get(node, 0.0), timezone.utc)
        rows = ["=" * 60, "train.py FAILED", "-" * 60, "Failures:"]
        for number, (rank, code) in enumerate(list(codes.items())[1:], 1):
            rows += _entry(run, number, node, rank, code, shown)
        rows += ["  <NO_OTHER_FAILURES>"] if len(codes) == 1 else []
        rows += ["-" * 60, "Root Cause (first observed failure):"]
        rows += [*_entry(run, 0, node, bad, codes[bad], shown), "=" * 60]
        run.agent(node, "\n".join(rows), delay + 0.5)


def _entry(run: Run, number: int, node: str, rank: int, code: int, shown: datetime) -> list[str]:
    traceback_ = "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
    if code < 0:
        import signal

        traceback_ = f"  traceback : Signal {-code} ({signal.Signals(-code).name}) received by PID {run.pids[rank]}"
    return [f"[{number}]:", f"  time      : {shown:%Y-%m-%d_%H:%M:%S}", f"  host      : {node}",
            f"  rank      : {rank} (local_rank: {rank % run.per_node})", f"  exitcode  : {code} (pid: {run.pids[rank]})",
            "  error_file: <N/A>", traceback_]  # fmt: skip


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


def nccl_lines(run: Run) -> None:
    """Let every rank print how NCCL began: its process, its card and its rank in one line."""
    for rank in range(run.world):
        local = rank % run.per_node
        run.say(rank, f"{run.node(rank)}:{run.pids[rank]}:{run.pids[rank] + 40} [{local}] NCCL INFO ncclCommInitRank comm 0x55d1c0 "
                      f"rank {rank} nranks {run.world} cudaDev {local} nvmlDev {local} busId {0x1B + 16 * local:x}000 "
                      "commId 0x7f21 - Init START", run.random.uniform(0, 0.1))  # fmt: skip


def kernel(run: Run, node: str, line: str) -> None:
    """Let the kernel of a node print something, with an ordinary line before it."""
    when = datetime.fromtimestamp(run.now + run.offsets[node], timezone.utc)
    stamp = f"[{when:%a %b %d %H:%M:%S %Y}]"
    run.extra[f"dmesg-{node}.log"] = [
        f"{stamp} usb 1-1: new high-speed USB device number 2 using xhci_hcd",
        f"{stamp} {line}",
    ]


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


def write(run: Run, folder: Path) -> None:
    """Write the lines into files of the layout."""
    files: dict[str, list[str]] = {}
    order = sorted(range(len(run.rows)), key=lambda index: run.rows[index][0])
    for index in order:
        _, rank, node, text = run.rows[index]
        for path, line in _placed(run, rank, node or "", text, run.attempts_of_rows[index]):
            files.setdefault(path, []).append(line)
    for path, lines in {**files, **run.extra}.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _placed(run: Run, rank: int | None, node: str, text: str, attempt: int) -> list[tuple[str, str]]:
    several = len(run.nodes) > 1
    if run.layout == "torchrun":
        base = f"{node}/" if several else ""
        if rank is None:
            return [(f"{base}agent.log", text)]
        return [(f"{base}job_x1/attempt_{attempt}/{rank % run.per_node}/stderr.log", text)]
    if run.layout == "prefixed":
        local = f"[default{rank % run.per_node}]:" if rank is not None and several else f"[rank{rank}]: "
        return [(f"{node}.log", text if rank is None else f"{local}{text}")]
    if run.layout == "srun":
        return [("slurm-4711.out", f"{rank}: {text}" if rank is not None else text)]
    if run.layout == "perhost":
        return [(f"logs/{node}.out", f"[rank{rank}]: {text}" if rank is not None else text)]
    if run.layout == "pods":
        number = int(node[4:])
        return [(f"trainer-worker-{number}.log", f"[rank{rank}]: {text}" if rank is not None else text)]
    return [(f"logs/rank_{rank}.log" if rank is not None else f"logs/launcher-{node}.log", text)]


if __name__ == "__main__":
    print(make(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None))
