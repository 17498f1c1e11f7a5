"""Where a fault strikes: one method for each place in the training program, which does nothing on a healthy rank."""

from __future__ import annotations

import ctypes
import logging
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import torch

log = logging.getLogger("train")
FOR_EVER = 3600.0


class Strike:
    """A fault of a kind, on this rank or not, at a step."""

    def __init__(self, fault: str, here: bool, at: int, out: Path) -> None:
        self.fault, self.here, self.at, self.out = fault, here, at, out
        self.bad = 0
        self.retried = False

    def start(self) -> None:
        """Before the process group is made."""
        if self.fault == "missing-module":
            import fused_kernels_of_nobody  # noqa: F401
        if self.fault == "missing-folder" and self.here:
            Path("/mnt/corpus/shards/index.json").read_text()

    def resume(self, target: Path) -> Path:
        """Before a checkpoint is looked for: a shard that was cut off when it was written."""
        if self.fault != "corrupt-checkpoint":
            return target
        shard = target.with_name(f"shard_{os.environ['RANK']}.pt")
        torch.save({"model": {}, "optimizer": {}, "step": 0, "rest": torch.zeros(2000)}, shard)
        if self.here:
            os.truncate(shard, shard.stat().st_size // 2)
            return shard
        return target

    def length(self, count: int) -> int:
        """How many samples this rank has."""
        return count * 2 // 3 if self.fault == "uneven-data" and self.here else count

    def read(self, batch: int) -> None:
        """Where a sample is read (in a worker of the loader, where there are workers)."""
        if not self.here or batch < self.at - 1:
            return
        if self.fault == "slow-loader":
            time.sleep(0.02)  # x 16 samples of a batch
        elif self.fault == "loader-exception" and batch == self.at - 1:
            raise OSError(5, "Input/output error", f"/data/shards/train-{batch:05d}.tar")
        elif self.fault == "loader-worker-killed":
            os.kill(os.getpid(), signal.SIGKILL)

    def step(self, step: int) -> None:
        """At the beginning of a step."""
        if self.fault == "retried-read" and self.here and step == self.at and not self.retried:
            self.retried = True
            try:
                raise ConnectionResetError(104, "Connection reset by peer")
            except ConnectionResetError:
                log.warning("reading shard 7 failed (try 1 of 5), retrying in 0.2s", exc_info=True)
                time.sleep(0.2)
                log.info("reading shard 7 succeeded at try 2")
        if self.fault == "harmless-words" and step == self.at:
            log.warning("gradient overflow: skipping 0 steps, errors: 0, failed ranks: none")
            log.info("nan check: 0 of 4 tensors hold NaN or inf; timeout of collectives stays at 6 s")
        first = os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0"
        if self.fault in ("killed-once", "killed-then-exception") and self.here and step == self.at and first:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "slow-then-killed" and self.here and step >= self.at - 5:
            time.sleep(0.4)
        if self.fault == "all-interrupted" and step == self.at:
            os.kill(os.getpid(), signal.SIGINT)
        if self.here and step == self.at:
            self._end()

    def _end(self) -> None:
        if self.fault == "exit-code":
            os._exit(13)
        elif self.fault == "segmentation-fault":
            ctypes.string_at(0)
        elif self.fault == "slow-then-killed":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.fault == "exit-zero":
            log.info("nothing left to do for this rank")
            os._exit(0)
        elif self.fault == "dead-thread":
            wait_for_thread()
        elif self.fault in ("sigkill", "sigstop", "sigterm"):
            # Sent to itself: what the others and the agent see is the same as when somebody else sends it.
            os.kill(os.getpid(), getattr(signal, self.fault.upper()))
        elif self.fault == "sigterm-agent":
            os.kill(os.getppid(), signal.SIGTERM)
        elif self.fault == "dead-store":
            os.kill(os.getppid(), signal.SIGKILL)
        elif self.fault == "dead-node":
            end_node()
        elif self.fault == "host-oom":
            self._fill_group()
        elif self.fault == "address-space":
            self._fill_address_space()

    def _fill_group(self) -> None:
        """Take more than a control group of this process alone may have: the kernel ends it, and says so."""
        group = os.environ.get("FAULT_MEMORY_GROUP")
        if group:
            Path(group, "cgroup.procs").write_text(str(os.getpid()))
        log.info("building the index of the corpus in memory")
        held = [torch.ones(4 << 20, dtype=torch.float32) for _ in range(64 if group else 4)]
        log.info("index of %d parts built", len(held))
        os.kill(os.getpid(), signal.SIGKILL)  # no control group may be made here: the kill alone is imitated

    def _fill_address_space(self) -> None:
        """Ask for more than `ulimit -v` leaves."""
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), resource.RLIM_INFINITY))
        torch.ones(512 << 20, dtype=torch.float32)

    def forward(self, step: int, batch: torch.Tensor) -> torch.Tensor:
        """Before the forward pass."""
        rank, again = os.environ["RANK"], os.environ.get("TORCHELASTIC_RESTART_COUNT") == "1"
        if self.fault == "killed-then-exception" and again and rank == "3" and step == self.at + 2:
            return batch[:, :-1]
        if self.fault == "two-exceptions" and step == self.at and rank == "3":
            time.sleep(1.5)
            raise FileNotFoundError(2, "No such file or directory", "/scratch/tmp/step.lock")
        if self.here and step == self.at:
            if self.fault in ("exception", "two-exceptions"):
                return batch[:, :-1]
            if self.fault == "nan":
                return batch * float("inf")
        return batch

    def compute(self, step: int) -> None:
        """After the optimizer's step."""
        if self.fault == "slow-rank" and self.here and step >= self.at:
            time.sleep(0.3)
        if self.fault in ("hang", "hang-alive") and self.here and step == self.at:
            wait_for_prefetch()

    def reduces(self, step: int) -> bool:
        """Whether this rank takes part in the reduction of the loss."""
        if self.fault == "swallowed-exception" and self.here and step == self.at:
            try:
                torch.zeros(3, 4) @ torch.zeros(3, 4)
            except RuntimeError:
                log.exception("metric of step %d could not be computed, going on without it", step)
                return False
        return not (self.fault == "skipped-collective" and self.here and step == self.at)

    def reduced(self, step: int, mean: torch.Tensor) -> torch.Tensor:
        """What this rank hands to it."""
        if self.fault == "mismatched-shape" and self.here and step == self.at:
            return torch.cat([mean, mean, mean])
        return mean

    def saving(self, step: int) -> None:
        """While a checkpoint is written."""
        if self.fault == "slow-save" and self.here and step >= self.at:
            log.info("writing 48 shards of the checkpoint")
            time.sleep(20)

    def folder(self, out: Path) -> Path:
        """Where checkpoints go."""
        small = os.environ.get("FAULT_SMALL_FOLDER")
        return Path(small) if self.fault == "full-disk" and small else out

    def check(self, step: int, mean: Any) -> None:
        """After the reduction: give up when the loss stays what is no number."""
        self.bad = 0 if torch.isfinite(mean).all() else self.bad + 1
        if self.bad:
            log.warning("loss is not finite at step %d (%d in a row)", step, self.bad)
        if self.bad >= 3:
            raise FloatingPointError(f"loss was not finite for {self.bad} steps, last step {step}")


def end_node() -> None:
    """End the agent above this process, and all of its workers, at once: as a node that loses its power."""
    agent = os.getppid()
    os.kill(agent, signal.SIGKILL)
    children = Path(f"/proc/{os.getpid()}/task").parent.parent
    for status in children.glob("[0-9]*/stat"):
        try:
            name, _, rest = status.read_text().rpartition(")")
        except OSError:
            continue
        pid = int(name.partition(" ")[0])
        if rest.split()[1] == str(agent) and pid != os.getpid():
            os.kill(pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def wait_for_thread() -> None:
    """Wait for what a thread would hand over, which has died of an exception."""
    ready = threading.Event()

    def prefetch() -> None:
        held = {"tokens": [1, 2, 3]}
        ready.tokens = held["labels"]  # type: ignore[attr-defined]
        ready.set()

    threading.Thread(target=prefetch, name="prefetch", daemon=True).start()
    ready.wait(FOR_EVER)


def wait_for_prefetch() -> None:
    """Wait for a lock that nobody gives back."""
    lock = threading.Lock()
    lock.acquire()
    lock.acquire(timeout=FOR_EVER)
    sys.exit("the lock was given back")
