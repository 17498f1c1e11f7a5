"""How a program is started with so many GPUs: each file is one launcher, named by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

import msgspec

from preflight.errors import UsageError, nearest
from preflight.investigate.bisect.running import Launch
from preflight.listing import modules_beside

_PLACE = re.compile(r"\{(\w+)\}")


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """What a test is started with.

    Attributes:
        gpus: All of them; None where the launcher does not decide it. nodes, local: Nodes, and GPUs on each.
        hosts: Which nodes, where they are chosen.
        values: What else may stand in the command, by name.
        environment: Variables to set (None: to take out). folder: Where it runs. state: Where files may be written.
        seconds: How long it may run. queue: How long it may wait for its turn.
    """

    gpus: int | None = None
    nodes: int | None = None
    local: int | None = None
    hosts: tuple[str, ...] = ()
    values: dict[str, Any] = {}
    environment: dict[str, str | None] = {}
    folder: str | None = None
    state: str = "."
    seconds: float = 1800.0
    queue: float = 86400.0

    def words(self) -> dict[str, str]:
        """What stands for the names in braces."""
        known: dict[str, Any] = {
            "gpus": self.gpus, "nodes": self.nodes, "gpus_per_node": self.local, "nodelist": ",".join(self.hosts) or None,
            "hosts": " ".join(self.hosts) or None, **self.values,
        }  # fmt: skip
        return {name: str(value) for name, value in known.items() if value is not None}


class Launcher(Protocol):
    """What a file of this folder offers."""

    def launch(self, program: Sequence[str], point: Point) -> Launch:
        """Return how the program is started."""
        ...  # pragma: no cover


def launchers() -> tuple[str, ...]:
    """The names of all launchers: the files of this folder."""
    return modules_beside(__file__)


def launcher(name: str) -> Launcher:
    """Return a launcher.

    Raises:
        UsageError: There is none of this name.
    """
    if name not in launchers():
        near = nearest(name, launchers())
        raise UsageError(
            f"no launcher is called {name!r}", f"did you mean {near}?" if near else f"one of {', '.join(launchers())}"
        )
    return cast(Launcher, import_module(f"{__name__}.{name}"))


def filled(words: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """Return a command with the names in braces filled in; braces around what is no such name stay."""
    return tuple(_PLACE.sub(lambda found: values.get(found.group(1), found.group(0)), word) for word in words)


def names_in(words: Sequence[str]) -> set[str]:
    """Names in braces that a command holds."""
    return {name for word in words for name in _PLACE.findall(word)}


__all__ = ["Launcher", "Point", "filled", "launcher", "launchers", "names_in"]
