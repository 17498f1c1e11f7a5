"""A small data-parallel training program on CPU and gloo, and the faults that can be put into it.

It is started by torchrun. What it logs, saves and reduces is what an ordinary program does; a fault strikes one rank
(or all of them) at one step, at the place in the program where such a fault strikes.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import signal
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from strike import Strike
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

WIDTH, CLASSES, BATCH = 32, 8, 16
log = logging.getLogger("train")


class Samples(Dataset):
    """Vectors with a class that a linear map of them tells; a fault may strike where one is read."""

    def __init__(self, count: int, rank: int, strike: Strike) -> None:
        self.count, self.rank, self.strike = count, rank, strike
        self.map = torch.randn(WIDTH, CLASSES, generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        self.strike.read(index // BATCH)
        drawn = torch.randn(WIDTH, generator=torch.Generator().manual_seed(self.rank * 100_003 + index))
        return drawn, int((drawn @ self.map).argmax())


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--save-every", type=int, default=8)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--timeout", type=float, default=6.0, help="seconds after which a collective gives up")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--by-hand", action="store_true", help="reduce gradients without DistributedDataParallel")
    parser.add_argument("--quiet-ranks", action="store_true", help="only rank 0 logs its steps")
    parser.add_argument("--bare", action="store_true", help="lines do not say which rank wrote them")
    parser.add_argument("--fault", default="")
    parser.add_argument("--ranks", type=lambda text: [int(part) for part in text.split(",")], default=[])
    parser.add_argument("--at", type=int, default=12, help="step at which it strikes")
    return parser.parse_args()


def logging_of(rank: int, bare: bool) -> None:
    who = "" if bare else f"[rank {rank}] "
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format=f"%(asctime)s | %(levelname)s | {who}%(message)s")


def dump_flight(rank: int) -> None:
    """Write what the Flight Recorder holds, as the NCCL watchdog does by itself."""
    target = os.environ.get("TORCH_FR_DUMP_TEMP_FILE")
    if target:
        content = torch._C._distributed_c10d._dump_fr_trace()
        Path(f"{target}{rank}").write_bytes(content)
        log.info("flight recorder written to %s%d", target, rank)


def dump_when_ended(rank: int) -> None:
    """Write the Flight Recorder, and where every thread is, when the agent ends this process."""

    def end(number: int, frame: Any) -> None:
        dump_flight(rank)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, end)
    faulthandler.enable()


def save(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int, folder: Path) -> None:
    began = time.perf_counter()
    target = folder / "checkpoint.pt"
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, f"{target}.part")
    os.replace(f"{target}.part", target)
    log.info("saved checkpoint at step %d to %s (%.3fs)", step, target, time.perf_counter() - began)


def resume(model: torch.nn.Module, optimizer: torch.optim.Optimizer, folder: Path, strike: Strike) -> int:
    target = folder / "checkpoint.pt"
    target = strike.resume(target)
    if not target.exists():
        log.info("no checkpoint in %s, starting from scratch", folder)
        return 0
    log.info("resuming from %s", target)
    held = torch.load(target, map_location="cpu", weights_only=True)
    model.load_state_dict(held["model"])
    optimizer.load_state_dict(held["optimizer"])
    log.info("resumed at step %d", held["step"])
    return int(held["step"])


def train(given: argparse.Namespace, rank: int, world: int, strike: Strike) -> None:
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(WIDTH, 64), torch.nn.GELU(), torch.nn.Linear(64, CLASSES))
    model = network if given.by_hand else DistributedDataParallel(network)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    log.info("model has %d parameters, world size %d", sum(p.numel() for p in model.parameters()), world)
    began = resume(network, optimizer, given.out, strike)
    samples = Samples(strike.length(given.steps * BATCH), rank, strike)
    loader = DataLoader(samples, batch_size=BATCH, num_workers=given.workers)
    batches = iter(loader)
    store = dist.distributed_c10d._get_default_store()
    for step in range(began + 1, given.steps + 1):
        at_start = time.perf_counter()
        strike.step(step)
        try:
            batch, labels = next(batches)
        except StopIteration:
            log.info("data exhausted after %d steps, leaving the loop", step - 1)
            break
        loaded = time.perf_counter()
        batch = strike.forward(step, batch)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(batch), labels)
        loss.backward()
        if given.by_hand:
            for parameter in network.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad /= world
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        strike.compute(step)
        computed = time.perf_counter()
        mean = loss.detach().clone().reshape(1)
        if strike.reduces(step):
            mean = strike.reduced(step, mean)
            dist.all_reduce(mean)
        store.set(f"step/{rank}", str(step))
        done = time.perf_counter()
        if not given.quiet_ranks or rank == 0:
            log.info(
                "step %d/%d loss %.4f mean %.4f grad_norm %.3f data %.3fs compute %.3fs comm %.3fs step %.3fs",
                step, given.steps, loss.item(), mean.sum().item() / world, norm.item(),
                loaded - at_start, computed - loaded, done - computed, done - at_start,
            )  # fmt: skip
        strike.check(step, mean)
        if step % given.save_every == 0:
            if rank == 0:
                strike.saving(step)
                save(network, optimizer, step, strike.folder(given.out))
            dist.barrier()
    log.info("training finished")


@record
def main() -> None:
    given = arguments()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    logging_of(rank, given.bare)
    torch.set_num_threads(1)
    strike = Strike(given.fault, rank in given.ranks, given.at, given.out)
    strike.start()
    dist.init_process_group("gloo", timeout=timedelta(seconds=90))
    # Ranks come up at different times on a loaded machine; once all are there, waiting is cut short.
    dist.barrier()
    if os.environ.get("TORCH_DISTRIBUTED_DEBUG") != "DETAIL":  # whose wrapper of the group takes no other timeout
        dist.distributed_c10d._set_pg_timeout(timedelta(seconds=given.timeout), dist.group.WORLD)
    dump_when_ended(rank)
    try:
        train(given, rank, world, strike)
        dist.barrier()
    except Exception:
        dump_flight(rank)
        raise
    dist.destroy_process_group()


if __name__ == "__main__":
    threading.current_thread().name = "train"
    main()
