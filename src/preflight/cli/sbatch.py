"""``preflight sbatch``: check a job before it is queued, and have it investigated where it fails."""

from __future__ import annotations

import shlex
from typing import Any

import click

from preflight.cli.parts.options import gpu


@click.command(
    "sbatch",
    # -h is left to what may follow a short option of sbatch: -Jhello is no call for help.
    context_settings={
        "ignore_unknown_options": True,
        "allow_interspersed_args": False,
        "help_option_names": ["--help"],
    },
)
@gpu
@click.option("--anyway", is_flag=True, help="Submit also what is NO-GO.")
@click.option("--no-investigate", is_flag=True, help="Do not queue the job that reads the logs of a failure.")
@click.option("--show", is_flag=True, help="Print what would be submitted, and submit nothing.")
@click.argument("words", nargs=-1, metavar="[OPTIONS OF SBATCH] JOB [ARGUMENTS]", type=click.UNPROCESSED)
@click.pass_context
def command(context: click.Context, /, words: tuple[str, ...], **given: Any) -> int:
    """Check the training that a job script starts; queue the job where nothing speaks against it.

    What is NO-GO is not submitted. --gpu names the GPU of the cluster, where the job does not. Behind the job a second, small one is queued that runs only if the first fails: it
    reads the logs and leaves what it finds in .preflight/slurm. Options for preflight stand before those of sbatch.
    The answer on standard output is sbatch's own.

    Exit codes: those of sbatch; 1 also where the job is NO-GO and was not submitted.
    """
    from preflight.cli.parts.submission import checked, follow_up, read, split, submit

    options, path, arguments = split(words)
    job = read(path, arguments, options)
    verdict = "UNKNOWN" if job is None else checked(context, job, given["gpu"])
    if verdict == "NO-GO" and not given["anyway"]:
        click.echo(f"not submitted: {path} is NO-GO (--anyway submits it all the same)", err=True)
        return 1
    after = None if given["no_investigate"] or job is None else follow_up(job)
    if given["show"]:
        click.echo(shlex.join(["sbatch", *words]))
        if after is not None:
            click.echo(shlex.join(after.words("JOB")))
        return 0
    return submit(words, after)
