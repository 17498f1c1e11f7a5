"""What a language model said of an incident: a hypothesis beside the verdict, with what of it could be checked."""

from __future__ import annotations

import msgspec

from preflight.vocabulary.incident import Quote


class Claim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A reason that the model gave.

    Attributes:
        text: The reason.
        cited: The words that it says stand in the evidence.
        quote: Where they stand; None: nowhere, the citation is not true.
    """

    text: str
    cited: str = ""
    quote: Quote | None = None


class Opinion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An answer of a model; it changes neither the verdict nor any probability.

    Attributes:
        model: The model, by the name under which it was asked.
        endpoint: Where it was asked.
        hypothesis: What it thinks happened; None where its answer could not be read.
        claims: Its reasons.
        check: What would show whether it is right.
        reason: Why there is no hypothesis.
    """

    model: str
    endpoint: str
    hypothesis: str | None = None
    claims: tuple[Claim, ...] = ()
    check: str | None = None
    reason: str | None = None
