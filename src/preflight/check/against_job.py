"""A training beside the job script that starts it: nodes, GPUs and processes that do not belong together."""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec

from preflight.errors import UsageError
from preflight.source.jobs.script import Job, Start
from preflight.source.launcher import Launch
from preflight.vocabulary.finding import Finding

_SPREADS = ("torchrun", "accelerate", "deepspeed", "python", None)


class JobGiven(msgspec.Struct, frozen=True, kw_only=True):
    """A job script, and which of the programs that it starts is checked.

    Attributes:
        job: The job. start: The program. script: Where its file is.
        others: How many other lines of the job start a program that is there.
    """

    job: Job
    start: Start
    script: str
    others: int = 0


def job_given(job: Job) -> JobGiven:
    """Find the training that a job script starts.

    Of several programs the first one is taken that a launcher starts and that imports a library that trains; without
    one, the first that imports such a library; without that, the first that is there.

    Raises:
        UsageError: It starts no Python program that is there.
    """
    from preflight.check.files.discover import mentions_training
    from preflight.source.script import MAX_BYTES

    there = [(start, found) for start in job.starts if (found := _file_of(start)) is not None]
    if not there:
        raise _nothing_started(job)

    def rank(one: tuple[Start, str]) -> tuple[bool, bool]:
        start, file = one
        plain = start.words[0].rpartition("/")[2].startswith("python") and "torch.distributed" not in start.launch
        try:
            with open(file, "rb") as opened:
                trains = mentions_training(opened.read(MAX_BYTES))
        except OSError:
            trains = False
        return not trains, plain

    start, file = min(there, key=rank)
    return JobGiven(job=job, start=start, script=file, others=len(there) - 1)


def _file_of(start: Start) -> str | None:
    """Where the file of a program is: from the job's folder, the current one, the script's own and those above it."""
    beside = os.path.dirname(start.path)
    above = [os.path.normpath(os.path.join(beside, *[".."] * up)) for up in range(4)]
    folders = [start.folder] if start.folder else []
    for folder in (*folders, "", *above):
        candidate = os.path.join(folder, start.script)
        if os.path.isfile(candidate):
            return os.path.normpath(candidate)
        if start.module and os.path.isfile(package := os.path.join(folder, start.script[:-3], "__main__.py")):
            return os.path.normpath(package)
    return None


def _nothing_started(job: Job) -> UsageError:
    if not job.starts:
        return UsageError(
            f"{job.path} starts no Python program that can be made out",
            "name the script: preflight check train.py --launch 'torchrun ...'; arguments of the job follow --",
        )
    named = ", ".join(dict.fromkeys(f"{start.script} ({start.path}:{start.line})" for start in job.starts[:3]))
    return UsageError(
        f"{job.path} starts {named}, which is not there",
        "run the check in the folder that the job is submitted from, or name the script with --launch",
    )


def findings_of(given: JobGiven, launch: Launch, strategy: str | None) -> Iterator[Finding]:
    """Yield what does not belong together.

    Args:
        given: The job.
        launch: Its launch line.
        strategy: How the script spreads a model over GPUs; None where that is not known.
    """
    from preflight.check.notices import job_gpus_idle, job_launcher_repeated, job_nodes_idle, job_option_unread

    job, start = given.job, given.start
    have = job.resources
    for late in job.late:
        yield job_option_unread.finding_for(late, job.path)
    if not job.scheduled:
        return
    once = not job.reaches and not any(one.through_srun for one in job.starts)
    if have.nodes > 1 and once and launch.framework in _SPREADS and not _by_itself(launch):
        yield job_nodes_idle.finding_for(start, have, launch)
    if (start.tasks_per_node or 1) > 1 and launch.framework in ("torchrun", "accelerate", "deepspeed"):
        yield job_launcher_repeated.finding_for(start, start.tasks_per_node or 1, launch)
        return
    processes = launch.gpus_per_node
    if processes is not None and launch.framework == "mpi" and launch.nodes is None:
        processes = max(1, processes // have.nodes)  # mpirun -np counts over all nodes of the job
    gpus = have.gpus_per_node
    if gpus is None or processes is None or processes == gpus or launch.options.get("cpu"):
        return
    alone = processes == 1 and strategy not in ("none", None)  # one process may use several GPUs
    if processes > gpus or not alone:
        yield job_gpus_idle.finding_for(start, gpus, processes)


def _by_itself(launch: Launch) -> bool:
    """Whether a launcher reaches the other nodes by itself: deepspeed does, over ssh, where it is told of them."""
    told = launch.options.get("num-nodes", launch.options.get("hostfile", ""))
    return launch.framework == "deepspeed" and told not in ("", "1") and "no-ssh" not in launch.options


def notes_of(given: JobGiven, launch: Launch) -> list[str]:
    """Say what was read in the job script, and what in it only a running job knows."""
    start = given.start
    notes = [f"started by {start.path}:{start.line}: {start.launch}"]
    if start.unknown:
        some = ", ".join(start.unknown[:4]) + (" ..." if len(start.unknown) > 4 else "")
        notes.append(f"known only to the running job, and left out of the line: {some}")
    if given.others:
        lines = "line starts" if given.others == 1 else "lines start"
        notes.append(f"{given.others} other {lines} programs in {given.job.path}; they are not checked")
    if given.job.resources.gpu and launch.framework is not None:
        notes.append(f"the job asks for {given.job.resources.gpu}")
    return notes
