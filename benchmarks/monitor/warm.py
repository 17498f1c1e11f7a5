"""Records many programs quickly: each in forks of one process that has torch loaded already.

    python benchmarks/monitor/warm.py OUT [NAME ...] [--bugs | --fixed] [-j 1] [--arguments "--seed 3"]

Records each healthy program (with ``--bugs`` each program with a bug, with ``--fixed`` its correct twin) into OUT/NAME.
The recorder is armed by the same start-up hook as in a process of its own. What a program prints stands in OUT/NAME/out.
A program that is recorded already is left out. Programs for ``torchrun`` get the environment that it would give them.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import re
import shlex
import shutil
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NamedTuple, NoReturn

from healthy_programs import launch

HERE = Path(__file__).resolve().parent
LONGEST = 300
"""Seconds after which a program is given up."""


class Job(NamedTuple):
    """A program to be recorded, with its arguments, into a folder."""

    file: Path
    arguments: tuple[str, ...]
    folder: Path
    budget: float = 2.0

    @property
    def ranks(self) -> int:
        """How many ranks it is launched with; 0 where it is started as one plain process."""
        words = launch(self.file)
        found = re.search(r"--nproc[-_]per[-_]node[= ](\d+)", " ".join(words))
        return int(found[1]) if found else 0


def recorded(folder: Path) -> bool:
    """Whether a folder holds a whole recording."""
    return (folder / "code").is_file()


def _taken(folder: Path) -> bool:
    """Whether another process is recording into a folder."""
    try:
        os.kill(int((folder / "by").read_text()), 0)
    except (OSError, ValueError):
        return False
    return True


def record(jobs: Sequence[Job], at_once: int = 1, tell: bool = True) -> None:
    """Record what is not recorded yet."""
    waiting = [job for job in jobs if not recorded(job.folder)]
    if not waiting:
        return
    _load()
    running: dict[int, tuple[Job, float]] = {}
    failed: dict[Path, int] = {}
    while waiting or running:
        while waiting and len({job.folder for job, _ in running.values()}) < at_once:
            job = waiting.pop(0)
            if recorded(job.folder) or _taken(job.folder):
                continue
            shutil.rmtree(job.folder, ignore_errors=True)
            (job.folder / "case").mkdir(parents=True)
            (job.folder / "by").write_text(f"{os.getpid()}\n")
            for pid in _start(job):
                running[pid] = job, time.monotonic()
        if not running:
            break
        pid, status = os.wait()
        if pid not in running:
            continue
        job, began = running.pop(pid)
        failed[job.folder] = failed.get(job.folder) or os.waitstatus_to_exitcode(status)
        if status:  # the other ranks would wait for it until they are given up
            for other, (same, _) in running.items():
                if same.folder == job.folder:
                    os.kill(other, signal.SIGKILL)
        if not any(other.folder == job.folder for other, _ in running.values()):
            (job.folder / "code").write_text(f"{failed[job.folder]}\n")
            code = f", EXIT CODE {failed[job.folder]}" if failed[job.folder] else ""
            if tell:
                print(f"{job.folder.name}: {time.monotonic() - began:.1f} s{code}", flush=True)


def _load() -> None:
    """Load what nearly every program loads, before anything is forked."""
    import torch
    import torch._dynamo
    import torch.distributed.fsdp
    import torch.distributed.tensor
    import torch.utils.data

    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()


def _start(job: Job) -> list[int]:
    if not job.ranks:
        return [_fork(job, {}, "out")]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    world = {"WORLD_SIZE": job.ranks, "LOCAL_WORLD_SIZE": job.ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    pids = []
    for rank in range(job.ranks):
        environment = {name: str(value) for name, value in {**world, "RANK": rank, "LOCAL_RANK": rank}.items()}
        pids.append(_fork(job, environment, "out" if not rank else f"out{rank}"))
    return pids


def _fork(job: Job, environment: dict[str, str], out: str) -> int:
    sys.stdout.flush()
    pid = os.fork()
    return pid or _run(job, environment, job.folder / out)


def _run(job: Job, more: dict[str, str], out: Path) -> NoReturn:
    """Be the program: its environment, arguments and output, and the recorder as the start-up hook arms it."""
    import runpy

    from preflight.monitor.collect.settings import Settings, detail
    from preflight.monitor.live.launch import HOOK, environment

    signal.alarm(LONGEST)
    file = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.environ.update(
        {
            **environment(Settings(str(job.folder), budget=job.budget, **detail(None, None)._asdict())),
            "OMP_NUM_THREADS": "1",
            **more,
        }
    )
    os.chdir(job.folder / "case")
    for name in [name for name in sys.modules if name.split(".")[0] in ("preflight", "healthy_programs")]:
        del sys.modules[name]
    sys.argv = [str(job.file), *job.arguments]
    sys.orig_argv = [sys.executable, *sys.argv]  # by which the recorder knows what the program is called
    sys.path[0] = str(job.file.parent)
    code = 0
    try:
        runpy.run_path(str(HOOK / "sitecustomize.py"))
        _stand_aside()
        runpy.run_path(str(job.file), run_name="__main__")
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException as error:
        code = 1
        sys.excepthook(type(error), error, error.__traceback__)
    try:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _stand_aside() -> None:
    """Let the recorder count no file of this process as the program's own, neither by its module nor by its frames."""
    known = sys.modules["_preflight_recorder.places"]._known
    known.update({str(file): False for file in HERE.glob("*.py")})
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        known[frame.f_code.co_filename] = False
        frame = frame.f_back


def jobs_of(
    room: str, out: Path, names: Sequence[str] = (), arguments: Sequence[str] = (), budget: float = 2.0
) -> list[Job]:
    """The programs of a room (``healthy``, ``bugs`` or ``fixed``), all or those that are named."""
    files = sorted((HERE / ("healthy" if room == "healthy" else "bugs")).glob("*.py"))
    given = (*(["--fixed"] if room == "fixed" else []), *arguments)
    return [Job(file, given, out / file.stem, budget) for file in files if not names or file.stem in names]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--bugs", action="store_true")
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("--arguments", default="", help="passed to each program: '--seed 3'")
    parser.add_argument("--budget", type=float, default=2.0, help="as of monitor run; 0: every iteration is told whole")
    given = parser.parse_args()
    room = "bugs" if given.bugs else "fixed" if given.fixed else "healthy"
    record(jobs_of(room, given.out.resolve(), given.names, shlex.split(given.arguments), given.budget), given.jobs)


if __name__ == "__main__":
    main()
