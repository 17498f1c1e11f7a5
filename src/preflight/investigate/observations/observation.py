"""An observation: something that was read and that speaks for some causes and against others."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from preflight.vocabulary.incident import Quote


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen, and how it changes the odds of causes.

    Attributes:
        text: What was seen, in one sentence, with its numbers.
        odds: By cause, the natural logarithm of how many times likelier this is where the cause is the one
            than where it is not; causes that are not named here are left as they are.
        quotes: Where it stands.
    """

    text: str
    odds: Mapping[str, float]
    quotes: tuple[Quote, ...] = ()
