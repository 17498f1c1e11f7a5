"""What one run of a program says: only the failure that is looked for counts as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

OutcomeKind = Literal["pass", "fail", "other-fail", "timeout", "infra"]


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a run ended.

    Attributes:
        kind: ``pass``; ``fail``: with the failure that is looked for; ``other-fail``: with another one; ``timeout``: it did
            not end (where a hang is what is looked for, that is ``fail``); ``infra``: it was not started properly.
        signature: What the failure was taken for.
        code: Exit code; negative: killed by that signal.
        seconds: How long it ran.
        log: Where its output is.
        text: The line that tells of the failure.
        cached: It was not run again.
    """

    kind: OutcomeKind
    signature: str | None = None
    code: int | None = None
    seconds: float = 0.0
    log: str | None = None
    text: str | None = None
    cached: bool = False


Ask = Callable[[Any], Outcome]
"""Runs one test; what is tested is a value, a subset, a commit."""


class Budget(Exception):
    """What may be spent is spent."""


__all__ = ["Ask", "Budget", "Outcome", "OutcomeKind"]
