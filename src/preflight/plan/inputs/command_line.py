"""From the arguments of the command line, the file that they name and the project's table to one set of settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from preflight.errors import UsageError
from preflight.plan.inputs.form import KEYS
from preflight.plan.inputs.model import SOURCES
from preflight.plan.inputs.requests import request_from
from preflight.plan.inputs.settings import Said, Settings, said
from preflight.plan.inputs.words import is_configuration, positional
from preflight.plan.request import Request

_BATCH = ("model.batch_size", "run.global_batch")


def parameter(path: str) -> str:
    """Return the name that the option of a key has inside the program."""
    return path.replace(".", "__")


def request_of(words: tuple[str, ...], given: Mapping[str, Any]) -> Request:
    """Return the request of a command line alone: no project, no catalog of its own.

    Raises:
        UsageError: A word or an option is wrong.
        InputError: A file that was named cannot be read.
    """
    return request_from(settings_of(words, given))


def settings_of(words: tuple[str, ...], given: Mapping[str, Any], project: Settings | None = None) -> Settings:
    """Return the settings of a command line: the line over the file over the project's table.

    Args:
        words: ``[[MODEL_TYPE] SIZE_BILLIONS BATCH]``.
        given: The options by ``parameter``, with ``config`` (a YAML file) and ``model_named`` (``--model``) beside them.
        project: What ``[tool.preflight]`` says.

    Raises:
        UsageError: A word or an option is wrong.
        InputError: The file cannot be read.
    """
    line = _line(words, given)
    below = Settings()
    if given.get("config"):
        from preflight.plan.inputs.document import read_settings

        below = read_settings(given["config"])
    if any(path in line for path in SOURCES):
        below = below.without((*SOURCES, "model.type"))
    if any(path in line for path in _BATCH):
        below = below.without(_BATCH)
    settings = line.over(below)
    return settings.over(project) if project is not None else settings


def _line(words: tuple[str, ...], given: Mapping[str, Any]) -> Settings:
    """Return what stands on the line itself."""
    found: dict[str, Said] = {}
    named = given.get("model_named")
    if named is not None:
        found[_named(named)] = Said(named, "--model")
    for path, key in KEYS.items():
        raw = given.get(parameter(path))
        if raw is None or (key.kind == "flag" and raw is False and "/" not in key.options[0]):
            continue
        option = next((option for option in key.options if option.startswith("--")), path)
        found[path] = said(path, raw, option.partition("/")[0])
    spoken = positional(words, named is not None or bool(given.get("script")))
    if "model.batch_size" in spoken and "model.batch_size" in found:
        raise UsageError(f"--batch and {words[-1]!r} both say the batch", "say it once")
    return Settings(found).over(spoken)


def _named(text: str) -> str:
    """Return whether a model's name is that of a file (``model.config``) or of the catalog (``model.name``)."""
    return "model.config" if is_configuration(text) or os.path.isfile(text) else "model.name"
