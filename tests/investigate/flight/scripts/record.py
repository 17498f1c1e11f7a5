"""Records Flight Recorder dumps of gloo jobs that hang in known ways.

    python record.py FOLDER [SCENARIO ...]

Each scenario becomes a folder of FOLDER with one dump per rank that could write one.
"""

import datetime
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

WORLD = 4
# How long a rank works before it writes what its recorder holds, in seconds.
PATIENCE = 6.0

# What is planted: the rank that begins it, and what it does.
PLANTED = {
    "healthy": None,
    "hang-before": 2,
    "skipped": 1,
    "shape": 3,
    "dtype": 0,
    "operation": 2,
    "stopped": 3,
    "killed": 1,
    "wrapped": 2,
    "subgroup": 3,
    "pipeline": 2,
    "source": 1,
    "json": 0,
    "no-stacks": 1,
    "never-called": 2,
}

# The script stands under the same name in the stacks on every machine.
AS_IF = "import sys; exec(compile(open(sys.argv[1]).read(), '/job/train.py', 'exec'))"


def main() -> None:
    if "RANK" in os.environ:
        work(os.environ["SCENARIO"], int(os.environ["RANK"]), Path(os.environ["FOLDER"]))
        return
    folder = Path(sys.argv[1])
    for name in sys.argv[2:] or PLANTED:
        launch(name, folder / name)


def launch(name: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = dict(
        os.environ,
        SCENARIO=name,
        FOLDER=str(folder),
        WORLD_SIZE=str(WORLD),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        TORCH_FR_BUFFER_SIZE="8" if name == "wrapped" else "200",
        OMP_NUM_THREADS="1",
        GLOO_SOCKET_IFNAME="lo",
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", AS_IF, __file__],
            env=dict(environment, RANK=str(rank), LOCAL_RANK=str(rank)),
            stderr=subprocess.DEVNULL,
        )
        for rank in range(WORLD)
    ]
    silent = {PLANTED[name]} if name in ("stopped", "killed") else set()
    end = time.monotonic() + 300
    # Everybody lives until everybody has written, so that no dump shows the end of another process.
    while time.monotonic() < end:
        time.sleep(0.5)
        waited_for = [r for r, process in enumerate(started) if r not in silent and process.poll() is None]
        if not any(not written(folder, rank) for rank in waited_for):
            break
    for process in started:
        process.kill()
        process.wait()
    (folder / "planted.json").write_text(json.dumps({"rank": PLANTED[name], "world_size": WORLD}) + "\n")


def written(folder: Path, rank: int) -> bool:
    return any((folder / f"rank_{rank}{ending}").exists() for ending in ("", ".json"))


def work(name: str, rank: int, folder: Path) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    threading.Thread(target=dump, args=(name, rank, folder), daemon=True).start()
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    guilty = rank == PLANTED[name]
    try:
        for step in range(5):
            train_step(dist, torch, name, guilty and step == 3, rank, pairs[rank // 2])
        dist.barrier()
    except RuntimeError as error:
        (folder / f"error_{rank}.txt").write_text(f"{error}\n")
    time.sleep(PATIENCE + 60)


def train_step(dist, torch, name, now, rank, pair) -> None:
    tensor = torch.ones(16)
    dist.all_reduce(tensor)
    if name == "subgroup":
        if now:
            load_next_batch()
        dist.all_reduce(torch.ones(4), group=pair)
    if name == "pipeline":
        pipeline(dist, torch, now, rank)
    if now:
        fault(dist, torch, name, rank)
    dist.broadcast(torch.ones(8), src=2 if now and name == "source" else 0)
    if not (now and name in ("skipped", "json", "no-stacks")):
        log_metrics(dist, torch)
    dist.all_reduce(gradients(torch, now, name))


def fault(dist, torch, name, rank) -> None:
    if name in ("hang-before", "wrapped"):
        load_next_batch()
    elif name == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif name == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif name == "operation":
        extra_validation(dist, torch)
    elif name == "never-called":
        time.sleep(PATIENCE + 60)


def pipeline(dist, torch, now, rank) -> None:
    """Hand a micro-batch from rank to rank; the planted one does not take it."""
    if now:
        load_next_batch()
    if rank > 0:
        dist.recv(torch.ones(6), src=rank - 1)
    if rank < WORLD - 1:
        dist.send(torch.ones(6), dst=rank + 1)


def gradients(torch, now, name):
    if now and name == "shape":
        return torch.ones(31)
    return torch.ones(32, dtype=torch.float64 if now and name == "dtype" else torch.float32)


def log_metrics(dist, torch) -> None:
    dist.all_reduce(torch.ones(2))


def extra_validation(dist, torch) -> None:
    dist.barrier()


def load_next_batch() -> None:
    time.sleep(PATIENCE + 60)


def dump(name: str, rank: int, folder: Path) -> None:
    import torch._C._distributed_c10d as c10d

    time.sleep(PATIENCE)
    if name == "json":
        whole(folder / f"rank_{rank}.json", c10d._dump_fr_trace_json(True, False))
    else:
        stacks = name != "no-stacks"
        whole(folder / f"rank_{rank}", without_home(c10d._dump_fr_trace(True, stacks, False)))


def whole(path: Path, content: bytes) -> None:
    """Write under another name first: the launcher takes a file that is there for a whole one."""
    beside = path.with_name(f".{path.name}")
    beside.write_bytes(content)
    beside.rename(path)


def without_home(content: bytes) -> bytes:
    """Put a name of the same length for the folder in which Python lives: lengths are part of a pickle."""
    home = sys.prefix.encode()
    return content.replace(home, b"/opt/python".ljust(len(home), b"_")[: len(home)])


if __name__ == "__main__":
    main()
