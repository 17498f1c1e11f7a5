"""Trains on several ranks with nothing said of a folder: each rank is recorded, and the first tells the trackers."""

import os

import torch
from torch.nn.parallel import DistributedDataParallel

from preflight.integrations.trackers.prometheus import Prometheus
from preflight.integrations.trackers.tensorboard import TensorBoard
from preflight.integrations.watching import Watching

torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
# Every rank names its trackers, as a script does that knows nothing of ranks; the first alone is to tell them.
trackers = [TensorBoard(f"tb-{rank}"), Prometheus(textfile=f"figures-{rank}.prom")]
watching = Watching(watch=False, trackers=trackers)
folders = []
for _ in range(2):  # a second training of one process has a folder of its own
    watching.begin()
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(8):
        optimizer.zero_grad()
        model(torch.randn(4, 8) + rank).pow(2).mean().backward()
        optimizer.step()
    watching.end()
    folders.append(watching.folder)
if rank == 0:
    with open("verdict", "w") as stream:
        print(watching.report.verdict, *watching.report.watched.ranks, file=stream)
elif watching.report is not None or len(set(folders)) != 2 or os.environ["RANK"] == "0":
    raise SystemExit("only the first rank judges")
torch.distributed.destroy_process_group()
