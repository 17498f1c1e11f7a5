"""Facts: what a reader learned about a run, each with its place and how it was learned."""

from __future__ import annotations

from typing import Any

import msgspec

from preflight.vocabulary.finding import Location


class Fact(msgspec.Struct, frozen=True):
    """One fact. A value that is not known is None, with the reason beside it.

    Attributes:
        value: A plain JSON value, or None.
        location: Where it is written.
        how: How it was learned: ``literal``, ``default of --lr``, ``catalog gpt2``, ``command line`` ...
        reason: Why the value is not known.
    """

    value: Any = None
    location: Location | None = None
    how: str | None = None
    reason: str | None = None

    @property
    def known(self) -> bool:
        """Whether the value is known."""
        return self.value is not None
