"""A variable of the environment is set, or has a value, or is not set."""

from __future__ import annotations

import os
import re

from preflight.investigate.checklist.checks import Seen


def check(name: str, matches: str | None = None, absent: bool = False) -> Seen:
    """Look into the environment of this command, which is that of the launch when it is called from there."""
    value = os.environ.get(name)
    if absent:
        return Seen(
            "pass" if value is None else "fail", f"{name} is {'not set' if value is None else f'set to {value}'}"
        )
    if value is None:
        return Seen("fail", f"{name} is not set")
    if matches is not None and re.fullmatch(matches, value) is None:
        return Seen("fail", f"{name}={value} is not {matches}")
    return Seen("pass", f"{name}={value}")
