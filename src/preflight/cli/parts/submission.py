"""Queue a job with Slurm, and behind it another one that investigates it where it fails."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence

import click
import msgspec

from preflight.errors import InputError, UsageError
from preflight.source.jobs.resources import options_of
from preflight.source.jobs.script import Job, read_job
from preflight.vocabulary.report import Verdict

KEPT_OPTIONS = ("account", "partition", "qos", "clusters", "reservation")
"""What the second job has in common with the first."""
FOLDER = os.path.join(".preflight", "slurm")


class FollowUp(msgspec.Struct, frozen=True, kw_only=True):
    """The job that reads the logs of another one.

    Attributes:
        name: The name of the first job. array: Whether that is an array of jobs, each with a number of its own.
        options: Options of ``sbatch`` that it shares with it.
        outputs: Patterns of the files that the first job and its steps write to, as Slurm spells them.
    """

    name: str
    array: bool = False
    options: tuple[str, ...]
    outputs: tuple[str, ...]

    def command(self, job: str) -> str:
        """The shell line that looks at a job that has failed, at those of its files that are there."""
        preflight = shlex.join([sys.executable, "-m", "preflight", "investigate"])
        kept = os.path.join(FOLDER, job)
        logs = " ".join(self.file(pattern, job) for pattern in self.outputs)
        return (
            f"mkdir -p {kept}; scontrol show job {job} > {kept}/scontrol.txt 2>/dev/null; "
            f"sacct -j {job} --parsable2 --format=JobID,JobName,State,ExitCode,Start,End,NodeList "
            f"> {kept}/sacct.txt 2>/dev/null || rm -f {kept}/sacct.txt; "
            f'set --; for log in {logs}; do [ -e "$log" ] && set -- "$@" "$log"; done; '
            # That a cause was found is no failure of this job; only that nothing could be looked at is one.
            f'PREFLIGHT_RUN=.preflight {preflight} "$@" {kept} || [ $? -ne 2 ]'
        )

    def file(self, pattern: str, job: str) -> str:
        """The files of a pattern as a glob of the shell; what only a running job knows is a star."""
        known = {"j": "*" if self.array else job, "A": job, "x": self.name, "%": "%"}
        spelled = re.sub(r"%\d*([A-Za-z%])", lambda found: known.get(found[1], "*"), pattern)
        return re.sub(r"[^\w*./:@%+,=~-]", lambda found: "\\" + found[0], spelled)

    def words(self, job: str, cluster: str | None = None) -> list[str]:
        """The command line that queues it, on the cluster that took the first job."""
        options = [option for option in self.options if cluster is None or not option.startswith("--clusters=")]
        options += [f"--clusters={cluster}"] if cluster else []
        return [
            "sbatch", "--parsable", f"--dependency=afternotok:{job}", "--kill-on-invalid-dep=yes",
            f"--job-name={self.name}-investigate", f"--output={FOLDER}/{job}.txt", "--ntasks=1", "--time=15",
            *options, "--wrap", self.command(job),
        ]  # fmt: skip


def split(words: Sequence[str]) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """Split a command line of ``sbatch`` into its options, the job script and the script's arguments.

    Raises:
        UsageError: It names no job script.
    """
    _, taken = options_of(words)
    if any(word == "--wrap" or word.startswith("--wrap=") for word in words[:taken]):
        raise UsageError("a job with --wrap has no script", "write the command into a job script")
    if taken >= len(words):
        raise UsageError("no job script is named", "preflight sbatch [OPTIONS OF SBATCH] JOB [ARGUMENTS]")
    return tuple(words[:taken]), words[taken], tuple(words[taken + 1 :])


def read(path: str, arguments: Sequence[str], options: Sequence[str]) -> Job | None:
    """Read a job script; None where it cannot be read, which is said and holds nothing up.

    Raises:
        UsageError: It is not there.
    """
    if not os.path.isfile(path):
        raise UsageError(f"{path}: no such file", "name the job script as sbatch would find it")
    try:
        return read_job(path, arguments, options)
    except InputError as error:
        click.echo(f"preflight: not checked: {error}", err=True)
        return None


def checked(context: click.Context, job: Job, gpu: str | None) -> Verdict:
    """Check what a job starts and say on standard error what speaks against it.

    A job that starts nothing that can be made out is not held up: that is said, and the verdict is UNKNOWN.

    Raises:
        UsageError: The GPU is not known, or the project's configuration is wrong.
    """
    from preflight.check.against_job import job_given
    from preflight.cli.parts.request import request
    from preflight.cli.parts.run_folder import leave
    from preflight.cli.parts.running import run
    from preflight.cli.parts.writing import rendered, writing
    from preflight.report.parts.sentences import quick_line

    try:
        given = job_given(job)
    except UsageError as error:
        click.echo(f"preflight: not checked: {error}", err=True)
        return "UNKNOWN"
    look = msgspec.structs.replace(
        writing(None, None, False, True, None), rest=f"preflight check {shlex.quote(job.path)} --verbose"
    )
    done = run(request(context, {"gpu": gpu}, given), look)
    leave(done.report)
    whole = done.report.verdict == "NO-GO"
    click.echo(
        rendered(done.report, look, done.sources) if whole else quick_line(done.report) + "\n", err=True, nl=False
    )
    return done.report.verdict


def follow_up(job: Job) -> FollowUp:
    """Return the job that would look at another one after a failure."""
    asked = job.resources.options
    array = "array" in asked
    name = asked.get("job-name") or os.path.basename(job.path)
    outputs = [asked.get("output") or ("slurm-%A_%a.out" if array else "slurm-%j.out")]
    outputs += [asked["error"]] if "error" in asked else []
    outputs += [output for start in job.starts for output in start.outputs]
    folder = asked.get("chdir")
    if folder:
        outputs = [os.path.join(folder, output) for output in outputs]
    return FollowUp(
        name=name, array=array, outputs=tuple(dict.fromkeys(outputs)),
        options=tuple(f"--{option}={asked[option]}" for option in KEPT_OPTIONS if option in asked),
    )  # fmt: skip


def submit(words: Sequence[str], after: FollowUp | None) -> int:
    """Queue a job, print what ``sbatch`` prints, and queue the job that looks at its failure.

    Returns:
        The exit code of ``sbatch``; the second job failing to be queued is said and changes nothing.

    Raises:
        UsageError: There is no ``sbatch``.
    """
    if after is not None:
        try:
            os.makedirs(FOLDER, exist_ok=True)
        except OSError as error:
            click.echo(f"preflight: nothing will look at a failure: {FOLDER}: {error.strerror}", err=True)
            after = None
    done = _sbatch(["sbatch", *words])
    click.echo(done.stdout, nl=False)
    click.echo(done.stderr, err=True, nl=False)
    # With --wait the exit code is that of the job, which was submitted all the same.
    found = re.search(r"(?:Submitted batch job |^)(\d+)(?:;| on cluster )?([\w-]+)?", done.stdout)
    if after is None or found is None:
        return done.returncode
    second = _sbatch(after.words(found[1], found[2]))
    if second.returncode:
        click.echo(f"preflight: nothing will look at a failure: {second.stderr.strip()}", err=True)
    else:
        number = second.stdout.strip().partition(";")[0]
        click.echo(f"preflight: job {number} looks at it if it fails: {FOLDER}/{found[1]}.txt", err=True)
    return done.returncode


def _sbatch(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(list(words), capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise UsageError("there is no sbatch on this machine", "submit where Slurm's commands are") from None
