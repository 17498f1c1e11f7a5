"""What the tests of the evaluator share: follow a text, run a text, compare the two."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from preflight.source.reading import Reading, read
from preflight.source.script import read_script
from preflight.source.values import Value, plain, settle


class Followed:
    """A script that was followed: what its names are worth."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.trace = reading.trace

    def value(self, name: str) -> Value:
        """The value that a global name has at the end."""
        return self.reading.machine.module.namespace[name]

    def __getitem__(self, name: str) -> Any:
        """The plain value of a global name, or an ellipsis where it is not known."""
        return plain(self.reading.machine.module.namespace.get(name), ...)

    def attributes(self, name: str) -> dict[str, Any]:
        """The plain values of the attributes of an object that a global name holds."""
        held = settle(self.value(name))
        return {key: plain(value, ...) for key, value in held.attrs.items()}  # type: ignore[attr-defined]


Follow = Callable[..., Followed]


@pytest.fixture
def follow(tmp_path: Path) -> Follow:
    """A function that follows a text as the main script of a folder, beside further files."""

    def run(
        text: str,
        files: dict[str, str] | None = None,
        arguments: tuple[str, ...] | None = None,
        environment: dict[str, str | None] | None = None,
        max_steps: int = 400_000,
    ) -> Followed:
        (tmp_path / ".git").mkdir(exist_ok=True)
        for name, content in (files or {}).items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(textwrap.dedent(content))
        script = tmp_path / "train.py"
        script.write_text(textwrap.dedent(text))
        return Followed(read(read_script(script), arguments, environment, max_steps=max_steps))

    return run
