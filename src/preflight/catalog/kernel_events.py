"""What lines of a kernel log stand for, read from ``kernel/events.toml``."""

from __future__ import annotations

import os
import re
from functools import cache

import msgspec

from preflight.catalog import files
from preflight.errors import CatalogError

PATH = os.path.join(files.SHIPPED, "kernel", "events.toml")


class KernelEvent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text that the kernel or a driver prints.

    Attributes:
        kind: What it is, as ``NodeEvent`` names it.
        meaning: What it stands for, in one line.
        literals: A line is looked at when it holds one of them.
        regex: Has to be found in the line; its groups are what it tells.
        fatal: The device, the process or the node did not survive it.
        above: Looked for in the three lines above, for what this line leaves out.
        values: What it always tells.
        match: Lines that it takes.
        no_match: Lines close to it that it must not take.
    """

    kind: str
    meaning: str
    literals: tuple[str, ...]
    regex: str
    fatal: bool = False
    above: str | None = None
    values: dict[str, str] = {}
    match: tuple[str, ...]
    no_match: tuple[str, ...]


@cache
def kernel_events() -> tuple[KernelEvent, ...]:
    """Return every kind of line that is known, in the order in which they are tried.

    Raises:
        CatalogError: The table is damaged.
    """
    content = files.parse(PATH)
    try:
        return msgspec.convert(content["event"], type=tuple[KernelEvent, ...])
    except (KeyError, msgspec.ValidationError) as error:
        raise CatalogError(f"{PATH}: {error}") from error


@cache
def compiled(regex: str) -> re.Pattern[str]:
    """Return an expression of the table, compiled once."""
    return re.compile(regex)


@cache
def literals() -> re.Pattern[bytes]:
    """Return an expression that finds any line that may be an event."""
    words = sorted({word for event in kernel_events() for word in event.literals}, key=len, reverse=True)
    return re.compile(b"|".join(re.escape(word.encode()) for word in words))


def event_of(line: str) -> tuple[KernelEvent, dict[str, str]] | None:
    """Return what a line stands for and what it tells, None where it is nothing known."""
    for event in kernel_events():
        if any(word in line for word in event.literals):
            found = compiled(event.regex).search(line)
            if found:
                return event, {
                    name.rstrip("2345678"): text for name, text in found.groupdict().items() if text is not None
                }
    return None
