"""Starts the guarded process in which a script runs on the virtual GPU, and reads what it saw."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from preflight.catalog.network_files import FOLDER
from preflight.dryrun.batch import Part
from preflight.dryrun.configurations import named
from preflight.dryrun.following import memory_limit, wait
from preflight.dryrun.virtual.private_names import OLDEST, TRIED, release
from preflight.errors import InputError, UsageError
from preflight.vocabulary.hardware import Gpu
from preflight.vocabulary.profile import Profile

CHILD = Path(__file__).resolve().parent / "virtual" / "child.py"
"""The program that runs a job."""
OLDEST_PYTHON = "3.10"
"""The first Python that the program is written for; PyTorch has not been made for older ones since 2.9."""


class Plan(msgspec.Struct, frozen=True):
    """How small a script is made for a probe with real numbers; None leaves things as they are.

    Attributes:
        samples: The most samples of a batch. tokens: The longest sequence of tokens.
        layers: The most layers of a model. width: Its largest width.
        noise: Whether what stands in for missing data holds noise, instead of zeros.
    """

    samples: int | None = None
    tokens: int | None = None
    layers: int | None = None
    width: int | None = None
    noise: bool = True


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A dry run.

    Attributes:
        script: The script.
        root: The folder of the person's own code.
        arguments: The script's command line.
        gpu: The GPU to be simulated.
        capacity_bytes: Its memory.
        steps: Optimizer steps of a loop.
        python: The interpreter; None is the one that runs Preflight.
        seconds: After so long the run is ended.
        memory_bytes: So much memory of the host the run may take; by default most of what is left.
        devices: GPUs that the script's process sees.
        batch: What a batch holds where data are missing.
        assumed: Configurations that the person gave: a model's name, or ``model`` for every other, to the path of its
            ``config.json`` or the name of a model of the catalog.
        rank: Which of the processes is run.
        messages: What stages of a pipeline have sent on ranks that were run before.
        communicator_bytes: What the communication library takes of the GPU's memory for a group of ranks.
        environment: What the launcher sets: ``RANK``, ``WORLD_SIZE`` and the like.
        snapshot: Where a snapshot for PyTorch's memory visualiser is written.
        changes: What is changed in the run from outside: the name of a module of ``virtual.changes``, and its options.
        last: The run is ended after so many optimizer steps, whatever would follow.
        plan: Run with real numbers on the CPU instead, made as small as this says; the profile then holds a probe alone.
    """

    script: str
    root: str
    gpu: Gpu
    capacity_bytes: int
    arguments: tuple[str, ...] = ()
    steps: int = 3
    python: str | None = None
    seconds: float = 300.0
    memory_bytes: int | None = None
    devices: int = 1
    rank: int = 0
    messages: dict[str, str] = {}
    communicator_bytes: int = 0
    environment: dict[str, str] = {}
    batch: tuple[Part, ...] = ()
    assumed: dict[str, str] = {}
    snapshot: str | None = None
    changes: tuple[dict[str, Any], ...] = ()
    last: int | None = None
    plan: Plan | None = None


def dry_run(job: Job, tell: Callable[[str], None] | None = None) -> Profile:
    """Run a script on the virtual GPU.

    Args:
        job: What to run.
        tell: Is given a line when the process starts.

    Raises:
        UsageError: The interpreter cannot be started, or lacks a PyTorch that can do it.
        InputError: The process ended without an answer.
    """
    python = job.python or sys.executable
    with tempfile.TemporaryDirectory(prefix="preflight-dry-run-") as scratch:
        order = prepare(job, scratch)
        if tell is not None:
            tell(f"running {job.script} on a virtual {job.gpu.title}; this executes its code")
        ended = _start([python, str(CHILD), order], job, scratch)
        return answer(job, scratch, ended, python)


def prepare(job: Job, scratch: str) -> str:
    """Write what the process has to do into its scratch folder; return the path of the order."""
    order = os.path.join(scratch, "job.json")
    content = {
        "script": os.path.abspath(job.script),
        "root": os.path.abspath(job.root),
        "arguments": list(job.arguments),
        "steps": job.steps,
        # The context of the driver is not PyTorch's to give away.
        "capacity": job.capacity_bytes - (job.gpu.context_bytes or 0),
        "card": _card(job.gpu, job.capacity_bytes),
        "scratch": scratch,
        "result": os.path.join(scratch, "result.json"),
        "memory": job.memory_bytes or memory_limit(),
        "devices": job.devices,
        "rank": job.rank,
        "messages": job.messages,
        "communicator": job.communicator_bytes,
        "networks": str(FOLDER),
        "models": named(job.script, job.arguments, job.assumed),
        "assumed": list(job.assumed),
        "batch": msgspec.to_builtins(job.batch),
        "snapshot": os.path.join(scratch, "snapshot.pickle") if job.snapshot else None,
        "changes": list(job.changes),
        "last": job.last,
    }
    if job.plan is not None:
        content["plan"] = msgspec.to_builtins(job.plan)
    Path(order).write_text(json.dumps(content), encoding="utf-8")
    os.makedirs(os.path.join(scratch, "tmp"))
    return order


def answer(job: Job, scratch: str, ended: Ended, python: str) -> Profile:
    """Read what the process saw.

    Raises:
        UsageError: The interpreter lacks a PyTorch that can do it, or the snapshot's place cannot be written to.
        InputError: The process ended without an answer.
    """
    result = os.path.join(scratch, "result.json")
    partial = None if os.path.exists(result) else result + ".partial"
    if partial is not None and not os.path.exists(partial):
        raise InputError(_silence(job, ended), _last_line(ended.output))
    _copy_snapshot(scratch, job)
    with open(partial or result, "rb") as file:
        seen = msgspec.json.decode(file.read(), type=Profile)
    if partial is not None and not ended.late:
        # What it wrote last while it ran; then something ended it that it could not answer to.
        seen = msgspec.structs.replace(seen, outcome="failed", error="ended", message=_silence(job, ended))
    return _usable(seen, python)


def _copy_snapshot(scratch: str, job: Job) -> None:
    """Take the snapshot out of the scratch folder before that goes.

    Raises:
        UsageError: The place that was named cannot be written to.
    """
    made = os.path.join(scratch, "snapshot.pickle")
    if job.snapshot is None or not os.path.exists(made):
        return
    try:
        shutil.copyfile(made, job.snapshot)
    except OSError as error:
        raise UsageError(f"--memory-snapshot {job.snapshot}: {error.strerror or error}") from None


class Ended(msgspec.Struct, frozen=True):
    """How the process of a job ended: its status, what it printed, whether the time limit ended it."""

    status: int
    output: str
    late: bool


SETTINGS = {
    "PYTHONDONTWRITEBYTECODE": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "WANDB_MODE": "disabled",
    "WANDB_DISABLED": "true",
    "TOKENIZERS_PARALLELISM": "false",
    "MPLBACKEND": "Agg",
    "GIT_PYTHON_REFRESH": "quiet",
    "TORCHDYNAMO_DISABLE": "1",
}
"""Variables of the environment of every dry run."""


def environment_of(job: Job, scratch: str) -> dict[str, str]:
    """Return the environment in which a job runs."""
    own = os.path.join(scratch, "tmp")
    return {**os.environ, **job.environment, **SETTINGS, "TMPDIR": own, "MPLCONFIGDIR": own}


def _start(command: Sequence[str], job: Job, scratch: str) -> Ended:
    try:
        process = subprocess.Popen(
            command,
            cwd=os.getcwd(),
            env=environment_of(job, scratch),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=os.name == "posix",
        )
    except OSError as error:
        raise UsageError(f"--python {command[0]}: {error.strerror or error}", "name a Python that has torch") from None
    output, late = wait(process, job.seconds, scratch)
    return Ended(process.returncode, output.decode(errors="replace"), late)


def _card(gpu: Gpu, capacity: int) -> dict[str, Any]:
    return {
        "name": gpu.title,
        "memory_bytes": capacity,
        "capability": list(gpu.compute_capability or (9, 4)),
        "multiprocessors": gpu.sms,
    }


def _silence(job: Job, ended: Ended) -> str:
    if ended.late:
        return f"the dry run of {job.script} did not end within {job.seconds:g} s"
    if ended.status < 0:
        return f"the dry run of {job.script} was ended by signal {-ended.status}"
    return f"the dry run of {job.script} ended without an answer (status {ended.status})"


def _last_line(output: str) -> str | None:
    lines = [line for line in output.splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else None


def _usable(seen: Profile, python: str) -> Profile:
    if seen.outcome == "no torch":
        raise UsageError(
            f"{python} has no torch, which a dry run needs", "name the interpreter that has it: --python EXE"
        )
    if seen.outcome == "python too old":
        raise UsageError(
            f"a dry run needs Python {OLDEST_PYTHON} or newer; {python} is {seen.python}",
            "name an interpreter that is: --python EXE",
        )
    if seen.outcome == "torch too old":
        raise _not_this_torch(seen, python)
    return seen


def _not_this_torch(seen: Profile, python: str) -> UsageError:
    """Return the error for a release that is too old, or that moved what a dry run rests on."""
    if release(str(seen.torch)) < release(OLDEST):
        return UsageError(
            f"a dry run needs PyTorch {OLDEST} or newer; {python} has {seen.torch}",
            "name the interpreter of an environment that has it: --python EXE",
        )
    return UsageError(
        f"a dry run does not work with PyTorch {seen.torch}, which {python} has: it lacks {', '.join(seen.missing)}",
        f"name an interpreter with a release that was tried ({', '.join(TRIED)}): --python EXE",
    )
