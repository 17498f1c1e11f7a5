"""Settings that run a layout: one file for each framework, found by listing this folder.

A file offers ``TITLE``, ``settings(request, candidate)``: the text, or None where the framework cannot run the layout; and
``read(text)``: the layout and run that a text of this form stands for, as far as it says, so that what is written can be
held against what was planned.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import msgspec

from preflight.plan.request import Request
from preflight.vocabulary.plan import Candidate


class Emitter(msgspec.Struct, frozen=True, kw_only=True):
    """A framework's form.

    Attributes:
        name: Its key: ``deepspeed``.
        title: What the text is: a file, a command line.
        settings: Writes it.
        read: Reads back what it stands for: fields of ``ParallelDims`` and of ``RunSpec`` under ``parallel`` and ``run``.
    """

    name: str
    title: str
    settings: Callable[[Request, Candidate], str | None]
    read: Callable[[str], dict[str, dict[str, Any]]]


def emitters() -> tuple[Emitter, ...]:
    """Return every framework's form, by name."""
    found = []
    for module in sorted(iter_modules(__path__), key=lambda module: module.name):
        loaded = import_module(f"{__name__}.{module.name}")
        found.append(Emitter(name=module.name, title=loaded.TITLE, settings=loaded.settings, read=loaded.read))
    return tuple(found)


def settings_of(request: Request, candidate: Candidate) -> dict[str, str]:
    """Return the settings of a layout by framework; those that cannot run it are left out."""
    dims = candidate.parallel
    usual = msgspec.structs.replace(dims, schedule="1f1b", reshard=True, first_layers=None, last_layers=None, etp=None)
    # Forms of others are written for usual pipelines and sharding; a file that leaves the rest out would run something else.
    able = [emitter for emitter in emitters() if dims == usual or emitter.name == "preflight"]
    written = {emitter.name: emitter.settings(request, candidate) for emitter in able}
    return {name: text for name, text in written.items() if text is not None}


def accumulation(candidate: Candidate) -> int:
    """Return the micro-batches of a step."""
    parallel, run = candidate.parallel, candidate.run
    ranks = parallel.dp_replicate * parallel.dp_shard
    return max((run.global_batch or 0) // (max(run.micro_batch or 1, 1) * ranks), 1)
