"""What commands that plan share: their options, and how a command line becomes a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from preflight.cli.parts.grouped import Grouped
from preflight.errors import UsageError
from preflight.plan.inputs.form import GROUPS, Key

if TYPE_CHECKING:
    from preflight.plan.inputs.settings import Settings
    from preflight.plan.request import Request

F = TypeVar("F", bound=Callable[..., Any])


def settings_options(command: F) -> F:
    """Add an option for every key of the settings that has one, and those that name the model."""
    options: list[Callable[[F], F]] = [
        click.option("--model", "model_named", metavar="NAME", cls=Grouped, group="Model",
                     help="A model of the catalog, or a config.json: 'llama-3-8b' ('preflight list models')."),
        click.option("--script", metavar="SCRIPT", cls=Grouped, group="Model",
                     help="A training script: what it says of model, batch, precision ... is read, not run."),
        click.option("--dry-run", is_flag=True, cls=Grouped, group="Model",
                     help="Run the script, guarded, on a virtual GPU: constants of a network that is not known."),
        click.option("--config", metavar="FILE", cls=Grouped, group="Model",
                     help="Settings in YAML; what the command line says wins."),
        click.option("--calibration", metavar="FILE", cls=Grouped, group="Model",
                     help="What 'preflight plan calibrate' made of measured steps."),
    ]  # fmt: skip
    for group, keys in GROUPS.items():
        options += [_option(key, group) for key in keys if key.options]
    for option in reversed(options):
        command = option(command)
    return command


def _option(key: Key, group: str) -> Callable[[F], F]:
    name = key.path.replace(".", "__")
    if key.kind == "flag":
        default = None if "/" in key.options[0] else False
        return click.option(*key.options, name, is_flag=True, default=default, cls=Grouped, group=group, help=key.help)
    return click.option(*key.options, name, metavar=key.shown, cls=Grouped, group=group, help=key.help)


def asked(
    words: tuple[str, ...],
    given: dict[str, Any],
    arguments: tuple[str, ...] | None = None,
    above: Settings | None = None,
) -> Request:
    """Return the request of a command line, with what ``[tool.preflight]`` says below it.

    Args:
        words: ``[[MODEL_TYPE] SIZE_BILLIONS BATCH]``, or a model, a script or a file of settings before the batch.
        given: The options.
        arguments: The command line of the script that ``--script`` names.
        above: Settings that win over all others.

    Raises:
        UsageError: Something does not fit.
        InputError: A file that was named cannot be read.
    """
    from preflight.plan.inputs.command_line import settings_of
    from preflight.plan.inputs.requests import request_from

    words, given = _named_first(words, given)
    if given.get("dry_run") and not given.get("script"):
        raise UsageError("--dry-run belongs to --script", "name the script: --script train.py --dry-run")
    if arguments is not None and not given.get("script"):
        raise UsageError("arguments of a script, and no script", "name it: --script train.py -- --batch-size 8")
    project, catalog = project_settings(given.get("config") or given.get("script") or ".")
    settings = settings_of(words, given, project)
    settings = above.over(settings) if above is not None else settings
    if given.get("script"):
        request = _with_script(settings, given["script"], arguments, catalog, dry_run=bool(given.get("dry_run")))
    else:
        request = request_from(settings, catalog, {name: given[name] for name in ("config",) if given.get(name)})
    return _calibrated(request, given.get("calibration"))


def _named_first(words: tuple[str, ...], given: dict[str, Any]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Take the first word for the option that it stands for: a model, a script or a file of settings."""
    from preflight.plan.inputs.words import subject_of

    subject = subject_of(words, project_settings(".")[1]) if words else None
    if subject is None:
        return words, given
    option, word = subject
    others = [name for name in ("model_named", "script", "config") if given.get(name)]
    if option == "config" and others != ["config"]:
        others = []  # settings of a file stand beside a model
    if others:
        raise UsageError(f"{word} and --{others[0].removesuffix('_named')} {given[others[0]]}: two subjects of a plan",
                         "leave one of them out")  # fmt: skip
    return words[1:], {**given, option: word}


def _calibrated(request: Request, path: str | None) -> Request:
    """Return the request with the coefficients of a calibration file, if one is named."""
    if path is None:
        return request
    import msgspec

    from preflight.plan.calibration.record import load

    found = load(path)
    where = f"{path}, fitted on {found.rows} measured steps"
    notes = (*request.notes, f"time: coefficients of {where}")
    if request.cluster.gpu.name not in found.gpus:
        notes = (*notes, f"{path} was fitted on {', '.join(found.gpus)}: on another GPU it is an extrapolation")
    run = found.with_memory(request.model, request.run)
    if run is not None:
        notes = (
            *notes,
            f"memory: {run.activation_factor:.3g} of the activations, as {path} has measured of this model",
        )
    elif found.memory:
        notes = (*notes, f"memory: as the catalog has it; {path} has measured other models")
    return msgspec.structs.replace(request, calibration=found, notes=notes, run=run or request.run)


def _with_script(
    settings: Settings, script: str, arguments: tuple[str, ...] | None, catalog: tuple[str, ...], *, dry_run: bool
) -> Request:
    """Return the request of a script: the command line over the file over what the script says."""
    import msgspec

    from preflight.cli.parts.scripted import told_by
    from preflight.plan.inputs.model import SOURCES
    from preflight.plan.inputs.requests import request_from

    gpu = settings.get("hardware.gpu_type", "h100") if dry_run else None
    named = any(path in settings for path in SOURCES)
    told = told_by(script, arguments, settings.get("cluster.num_gpus"), catalog, gpu, named)
    below = told.settings
    if any(path in settings for path in ("model.batch_size", "run.global_batch")):
        below = below.without(("run.gradient_accumulation",))
    if any(path in settings for path in ("run.tokens", "run.steps")):
        below = below.without(("run.steps",))
    request = request_from(settings.over(below), catalog, {"script": script}, told.model)
    return msgspec.structs.replace(
        request,
        assumptions=(*told.assumptions, *request.assumptions),
        notes=(*told.notes, *request.notes),
        measured=told.measured,
    )


def project_settings(near: str) -> tuple[Settings, tuple[str, ...]]:
    """Return what the project's table says about a plan, and the folders of its catalog.

    Raises:
        UsageError: The table is wrong.
    """
    from preflight.check.files.project_config import load_project
    from preflight.plan.inputs.settings import Said, Settings

    project = load_project(near)
    where = f"{project.path}: [tool.preflight]"
    told = {
        "hardware.gpu_type": project.config.gpu, "hardware.gpu_memory": project.config.gpu_memory,
        "cluster.num_gpus": project.config.gpus,
    }  # fmt: skip
    return Settings({path: Said(value, where) for path, value in told.items() if value is not None}), project.catalog()
