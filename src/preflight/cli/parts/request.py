"""What a person asked for: the command line over ``[tool.preflight]`` over the defaults."""

from __future__ import annotations

from collections.abc import Sequence
from os.path import isdir
from typing import TYPE_CHECKING, Any

import click
import msgspec

from preflight.check.asked import Options
from preflight.check.files.discover import ENDINGS
from preflight.check.files.project_config import Project, load_project
from preflight.check.selection import Selection, codes_of
from preflight.cli.parts.options import OF_A_DRY_RUN, SCRIPT_ARGUMENTS
from preflight.errors import UsageError

if TYPE_CHECKING:
    from preflight.check.against_job import JobGiven


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A check that is asked for.

    Attributes:
        paths: What is to be checked.
        options: What is said about the run.
        selection: Which findings matter.
        exclude: Patterns that folders are searched without.
        base: The folder that the patterns of the configuration are relative to.
        baseline: The baseline file, or None.
        baseline_named: Whether it was named on the command line.
        update_baseline: Whether it is to be written anew.
        jobs: Number of processes, or None.
    """

    paths: tuple[str, ...]
    options: Options
    selection: Selection
    exclude: tuple[str, ...] = ()
    base: str | None = None
    baseline: str | None = None
    baseline_named: bool = False
    update_baseline: bool = False
    jobs: int | None = None


def request(context: click.Context, given: dict[str, Any], job: JobGiven | None = None) -> Request:
    """Put together what was asked for.

    Args:
        context: Of the command line.
        given: What is said there.
        job: The job script in place of a script, where it has been read.

    Raises:
        UsageError: Something does not fit, here or in ``pyproject.toml``.
    """
    job = job or _job(context, given)
    if job is not None:
        given = given | {"paths": (job.script,), "launch": job.start.launch}
    paths, arguments = _subject(context, given)
    project = load_project(paths[0])
    if job is not None:
        arguments = job.start.arguments
        given["gpu"] = given.get("gpu") or _gpu_of(job, project, given)
    options = options_of(given, project, arguments)
    options = msgspec.structs.replace(options, job=job) if job is not None else options
    for name in ("memory_snapshot", "chrome_trace", "expectations"):
        if given.get(name) and (len(paths) > 1 or isdir(paths[0])):
            raise UsageError(f"--{name.replace('_', '-')} is for one script", "name a single file")
    baseline = given.get("baseline") or (project.resolve(project.config.baseline) if project.config.baseline else None)
    update = bool(given.get("update_baseline"))
    if update and baseline is None:
        raise UsageError("--update-baseline: there is no baseline", "name the file: --baseline FILE")
    return Request(
        paths=paths, options=options, selection=selection_of(given, project),
        exclude=(*project.config.exclude, *given.get("exclude", ())), base=project.folder,
        baseline=baseline, baseline_named=bool(given.get("baseline")), update_baseline=update, jobs=given.get("jobs"),
    )  # fmt: skip


def _job(context: click.Context, given: dict[str, Any]) -> JobGiven | None:
    """The job script that is named in place of a training script."""
    paths: tuple[str, ...] = given["paths"]
    others = [path for path in paths if path != "-" and not path.endswith(ENDINGS) and not isdir(path)]
    if not others:
        return None
    from preflight.source.jobs.script import is_job_script, read_job

    jobs = [path for path in others if is_job_script(path)]
    if not jobs:
        return None
    if len(paths) > 1:
        raise UsageError(f"{jobs[0]} is a job script, and other files are named", "check a job script alone")
    if given.get("launch"):
        raise UsageError(f"{jobs[0]} says how the training is started, and so does --launch", "leave one of them out")
    from os.path import exists

    from preflight.check.against_job import job_given
    from preflight.errors import InputError

    if not exists(jobs[0]):
        raise InputError(f"{jobs[0]}: no such file", "name a job script or a training script")
    return job_given(read_job(jobs[0], context.meta.get(SCRIPT_ARGUMENTS) or ()))


def _gpu_of(job: JobGiven, project: Project, given: dict[str, Any]) -> str | None:
    """The GPU that the job asks for, where its name is one that is known; a constraint may name other things."""
    import re

    from preflight.catalog.hardware import resolve_gpu

    if given.get("gpu_memory") is not None or given.get("plan"):
        return None
    for word in re.split(r"[&|,*\[\]()]+", job.job.resources.gpu or ""):
        try:
            return resolve_gpu(word, project.catalog()).name if word else None
        except UsageError:
            continue
    return None


def _subject(context: click.Context, given: dict[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """The paths and the script's arguments; a launch line can name both."""
    paths: tuple[str, ...] = given["paths"]
    arguments: tuple[str, ...] | None = context.meta.get(SCRIPT_ARGUMENTS)
    if given.get("launch"):
        from os.path import isfile

        from preflight.source.launcher import parse_launch

        launch = parse_launch(given["launch"])
        if not paths and launch.script is None:
            raise UsageError("the launch line names no script", "name it: preflight check train.py --launch ...")
        paths = paths or (launch.script or "",)
        if len(paths) == 1 and isfile(paths[0]):
            of_line = launch.arguments_of(paths[0])
            arguments = of_line if arguments is None else arguments
    if not paths:
        raise UsageError("nothing to check", f"name a script or a folder: {context.command_path} train.py")
    if "-" in paths and len(paths) > 1:
        raise UsageError("standard input (-) cannot be checked together with other files")
    return paths, arguments


def options_of(given: dict[str, Any], project: Project, arguments: tuple[str, ...] | None) -> Options:
    """What is said about the run, here and in the project's configuration.

    Raises:
        UsageError: Something does not fit.
    """
    config = project.config
    gpu, memory = given.get("gpu"), given.get("gpu_memory")
    planned = None
    if given.get("plan"):
        from preflight.cli.parts.plan_file import read_plan

        planned = read_plan(given["plan"])
    if gpu is None and memory is None and planned is None:
        # Both or none: a size from the file must not shrink the card named on the command line.
        gpu, memory = config.gpu, config.gpu_memory
    catalog = project.catalog()
    named_here = given.get("gpu") is not None or given.get("gpu_memory") is not None
    where = "" if named_here else f"{project.path}: "
    _known_hardware(gpu, memory, catalog, where)
    more: dict[str, Any] = {"catalog": catalog} if catalog else {}
    _readable(given)
    more |= {name: given[name] for name in ("dry_run", *OF_A_DRY_RUN) if name != "no_probe" and given.get(name)}
    if planned is not None:
        more["plan"] = planned
    if given.get("no_probe"):
        more["probe"] = False
    more |= {"what_fits": False} if given.get("what_fits") is False else {}
    return Options(
        gpu=gpu,
        gpu_memory=memory,
        gpus=given.get("gpus") or (None if given.get("launch") or planned else config.gpus),
        launch=given.get("launch"),
        arguments=arguments,
        **more,
    )


def _readable(given: dict[str, Any]) -> None:
    """Refuse what cannot be understood before anything is read."""
    if given.get("batch") is not None or given.get("assume"):
        from preflight.dryrun.batch import parse_assumptions, parse_batch

        parse_assumptions(given.get("assume") or ())
        if given.get("batch") is not None:
            parse_batch(given["batch"])


def _known_hardware(gpu: str | None, memory: float | None, catalog: tuple[str, ...], where: str) -> None:
    """Refuse an unknown GPU before anything is read, also where no script will ask for it."""
    if gpu is None and memory is None:
        return
    from preflight.catalog.hardware import gpu_from_memory, resolve_gpu

    try:
        if gpu is not None:
            resolve_gpu(gpu, catalog)
        if memory is not None:
            gpu_from_memory(memory, catalog)
    except UsageError as error:
        raise UsageError(f"{where}{error}", error.hint) from None


def selection_of(given: dict[str, Any], project: Project) -> Selection:
    """Which findings matter, by the command line and the project's configuration.

    Raises:
        UsageError: A rule is not known.
    """
    config = project.config
    select = codes_of(_words(given.get("select")), "--select") if given.get("select") else None
    if select is None and config.select is not None:
        select = codes_of(config.select, f"{project.path}: select")
    hidden = codes_of(_words(given.get("ignore")), "--ignore")
    if select is None or not given.get("select"):
        hidden |= codes_of(config.ignore, f"{project.path}: ignore")
    per_file = tuple(
        (pattern, codes_of(rules, f"{project.path}: per-file-ignores"))
        for pattern, rules in config.per_file_ignores.items()
    )
    return Selection(
        persona=given.get("persona") or config.persona or "regular",
        select=select, ignore=hidden, per_file_ignores=per_file, base=project.folder,
        fail_on="warning" if (given.get("fail_on") or config.fail_on) == "warning" else "error",
    )  # fmt: skip


def _words(given: Sequence[str] | None) -> list[str]:
    return [word for item in given or () for word in item.replace(" ", ",").split(",") if word]
