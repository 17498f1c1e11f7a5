"""Settings that run a layout: one file for each framework, found by listing this folder.

A file offers ``TITLE``; ``ASIDE``, the fields of the run that its form leaves to the training code; ``write(request,
candidate)``, the text, which raises ``CannotSay`` for what the framework does not run; and ``read(text)``, the layout and
the run that a text of this form stands for. What is written is read again: a form that leaves out something that was
planned is not offered, and the reason names it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import msgspec

from preflight.listing import modules_beside
from preflight.plan.request import Request
from preflight.plan.settings_reason import CannotSay, left_out
from preflight.vocabulary.plan import Candidate

Told = dict[str, dict[str, Any]]


class Emitter(msgspec.Struct, frozen=True, kw_only=True):
    """A framework's form.

    Attributes:
        name: Its key: ``deepspeed``.
        title: What the text is: a file, a command line.
        write: Writes it.
        read: Reads back what it stands for: fields of ``ParallelDims`` and of ``RunSpec`` under ``parallel`` and ``run``.
        aside: Fields of the run that are no part of the form.
    """

    name: str
    title: str
    write: Callable[[Request, Candidate], str]
    read: Callable[[str], Told]
    aside: frozenset[str]

    def settings(self, request: Request, candidate: Candidate) -> str | None:
        """Return the text, or None where the form cannot say the plan."""
        try:
            return self.said(request, candidate)
        except CannotSay:
            return None

    def said(self, request: Request, candidate: Candidate) -> str:
        """Return the text.

        Raises:
            CannotSay: The framework does not run the layout, or its form has no place for a part of it.
        """
        text = self.write(request, candidate)
        missing = left_out(self.read(text), candidate, self.aside)
        if missing:
            raise CannotSay(f"its form has no place for {', '.join(missing)}")
        return text


def emitters() -> tuple[Emitter, ...]:
    """Return every framework's form, by name."""
    found = []
    for name in modules_beside(__file__):
        loaded = import_module(f"{__name__}.{name}")
        aside = frozenset(loaded.ASIDE)
        found.append(Emitter(name=name, title=loaded.TITLE, write=loaded.write, read=loaded.read, aside=aside))
    return tuple(found)


def settings_of(request: Request, candidate: Candidate) -> tuple[dict[str, str], dict[str, str]]:
    """Return the settings of a layout by framework, and of the frameworks that cannot run it, why."""
    texts, reasons = {}, {}
    for emitter in emitters():
        try:
            texts[emitter.name] = emitter.said(request, candidate)
        except CannotSay as reason:
            reasons[emitter.name] = str(reason)
    return texts, reasons


def accumulation(candidate: Candidate) -> int:
    """Return the micro-batches of a step."""
    parallel, run = candidate.parallel, candidate.run
    ranks = parallel.dp_replicate * parallel.dp_shard
    return max((run.global_batch or 0) // (max(run.micro_batch or 1, 1) * ranks), 1)
