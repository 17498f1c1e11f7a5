"""Eight hearts in processes of their own, forked from one that has torch already; some of them end badly.

    eight_ranks.py PORT kill:3,stop:5,mute:6,leave:1,never:7

Prints ``ready`` when the hearts beat and again when the bad ends have come, then lives until its input ends.
"""

from __future__ import annotations

import os
import signal
import sys
import time

import torch.distributed as dist

from preflight.investigate.liveness import Heart

WORLD = 8


def live(rank: int, port: int, end: str) -> None:
    if end == "never":
        time.sleep(600)
    heart = Heart(
        rank, WORLD, ("127.0.0.1", port), every=0.3, run="test.0", neighbours=() if end == "alone" else tuple(range(8))
    ).start()
    heart.step(rank)
    for step in range(10_000):
        if step == 10 and end == "leave":
            heart.stop()
            time.sleep(600)
        if end != "stall":
            heart.step(100 + step)
        time.sleep(0.2)


def main() -> None:
    port = int(sys.argv[1])
    ends = {int(rank): end for end, _, rank in (part.partition(":") for part in sys.argv[2].split(",") if part)}
    children = {}
    for rank in range(WORLD):
        pid = os.fork()
        if pid == 0:
            try:
                live(rank, port, ends.get(rank, ""))
            finally:
                os._exit(0)
        children[rank] = pid
    store = dist.TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)
    expected = [rank for rank in range(WORLD) if ends.get(rank) != "never"]
    while not all(store.add(f"preflight/liveness/test.0/beat/{rank}", 0) > 1 for rank in expected):
        time.sleep(0.1)
    time.sleep(2.0)
    print("ready", flush=True)
    sys.stdin.readline()
    for rank, end in ends.items():
        if end in ("kill", "stop"):
            os.kill(children[rank], signal.SIGKILL if end == "kill" else signal.SIGSTOP)
            if end == "kill":
                os.waitpid(children[rank], 0)
    print("struck", flush=True)
    sys.stdin.read()
    for pid in children.values():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


if __name__ == "__main__":
    main()
