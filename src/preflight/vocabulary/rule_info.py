"""Rule words: what a rule says of itself, for listings, pages and reports."""

from __future__ import annotations

import msgspec

from preflight.vocabulary.finding import Confidence, Persona, Severity


class RuleInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule says of itself.

    Attributes:
        name: The kebab-case pattern that it looks for: ``dataloader-without-workers``.
        code: The short stable code: ``EFF002``.
        title: What it finds, in one line.
        severity: The severity of its findings, unless a finding says otherwise.
        confidence: How sure it is, unless a finding says otherwise.
        page: Its documentation page, Markdown.
        tags: Topics: ``memory``, ``distributed`` ...
        persona: Who wants to see it.
    """

    name: str
    code: str
    title: str
    severity: Severity
    confidence: Confidence
    page: str = ""
    tags: tuple[str, ...] = ()
    persona: Persona = "regular"
