"""A gloo job in which one rank sleeps in its own code and another is stopped; each rank offers its recorder on a socket."""

import contextlib
import datetime
import faulthandler
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.elastic.control_plane import worker_main


def load_next_batch() -> None:
    while True:
        time.sleep(5)


def train_step(rank: int, step: int, faults: dict) -> None:
    if step == 3 and faults.get(rank) == "sleep":
        load_next_batch()
    if step == 3 and faults.get(rank) == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    dist.all_reduce(torch.ones(8))


def main() -> None:
    torch.set_num_threads(1)
    faulthandler.register(signal.SIGUSR1)
    faults = dict(pair.split("=") for pair in sys.argv[1:])
    faults = {int(rank): kind for rank, kind in faults.items()}
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=600))
    for step in range(4):
        train_step(dist.get_rank(), step, faults)
    while "run" in faults.values():
        train_step(dist.get_rank(), 0, {})
    time.sleep(600)


if __name__ == "__main__":
    with worker_main() if "TORCH_WORKER_SERVER_SOCKET" in os.environ else contextlib.nullcontext():
        main()
