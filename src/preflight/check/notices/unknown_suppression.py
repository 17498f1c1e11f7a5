"""A suppression comment names something that does not exist.

## What it does
Reports `# preflight:` comments with an unknown word (`ingore`) or an unknown rule in their brackets.

## Why
The comment has no effect: what it was meant to hide is still shown, or will be.

## Fix
Write the name or the code of a rule: `preflight list rules` shows all.

## When to ignore
When the rule comes from a catalog folder that is not configured on this machine.

## References
- The guide on suppression comments in this documentation
"""

from __future__ import annotations

from preflight.check.rule import Rule
from preflight.vocabulary.finding import Edit, Evidence, Finding, Fix, Location

RULE = Rule(
    name="unknown-suppression",
    code="SUP002",
    severity="warning",
    confidence="certain",
    layer="S",
    tags=("suppression",),
)

BAD = ("lr = 0.1  # preflight: ignore[gradients-never-zerod]\n",)
GOOD = ("lr = 0.1  # preflight: all systems go\n",)


def finding_for(where: Location, kind: str, word: str, near: str | None, edit: Edit | None) -> Finding:
    """Report a word of a comment that is not known.

    Args:
        where: The comment.
        kind: What the word should be: ``rule`` or ``directive``.
        word: The word.
        near: The nearest known one, or None.
        edit: The correction, or None.
    """
    listing = "preflight list rules shows all" if kind == "rule" else "ignore, ignore-file, off or on"
    hint = f"write {near}" if near else f"name a {kind} that exists: {listing}"
    return Finding(
        rule=RULE.name,
        code=RULE.code,
        severity=RULE.severity,
        confidence=RULE.confidence,
        message=f"{word!r} is not a {kind} that is known, so this comment has no effect",
        location=where,
        evidence=(Evidence(f"{kind} in the comment", word),),
        fix=Fix(
            title=hint,
            safe=False,
            edits=(edit,) if edit is not None else (),
            instruction=hint,
            expected="the comment has an effect",
        ),
    )
