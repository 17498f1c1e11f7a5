"""What ranks, agents, watchdogs and kernels print while a run fails, as PyTorch, NCCL, gloo and Linux print it."""

from __future__ import annotations

import signal
from datetime import datetime, timezone

from incident_run import Run, pre


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
        traceback_ = f"  traceback : Signal {-code} ({signal.Signals(-code).name}) received by PID {run.pids[rank]}"
    return [f"[{number}]:", f"  time      : {shown:%Y-%m-%d_%H:%M:%S}", f"  host      : {node}",
            f"  rank      : {rank} (local_rank: {rank % run.per_node})", f"  exitcode  : {code} (pid: {run.pids[rank]})",
            "  error_file: <N/A>", traceback_]  # fmt: skip


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
