"""Which findings a person sees: the persona, what was selected and ignored; and the verdict that these make."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from preflight.check.verdict import trains
from preflight.errors import UsageError, nearest
from preflight.vocabulary.finding import Finding, Persona
from preflight.vocabulary.report import Report, Verdict

FailOn = Literal["error", "warning"]
MARK = "preflight:"
"""What every suppression comment has in it; a text without it is not searched for them."""

LIBRARY_NOTE = "no training of its own: checked as a module of the project"

PERSONAS: tuple[Persona, ...] = ("regular", "pedantic", "audit")


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """What decides whether a finding is shown, and whether it fails the check.

    Attributes:
        persona: Who is looking.
        select: Codes of the rules to show; None for all.
        ignore: Codes of the rules to hide.
        per_file_ignores: Patterns of paths, each with the codes to hide there.
        base: The folder that those patterns are relative to.
        fail_on: The least severity that makes the verdict NO-GO.
    """

    persona: Persona = "regular"
    select: frozenset[str] | None = None
    ignore: frozenset[str] = frozenset()
    per_file_ignores: tuple[tuple[str, frozenset[str]], ...] = ()
    base: str | None = None
    fail_on: FailOn = "error"

    def decides(self, finding: Finding) -> bool:
        """Whether this finding alone makes the verdict NO-GO."""
        return finding.decides or (
            self.fail_on == "warning" and finding.severity == "warning" and finding.confidence != "possible"
        )

    def chosen(self, finding: Finding) -> bool:
        """Whether a finding's rule is selected and not ignored where it is."""
        code = finding.code
        if code in self.ignore or (self.select is not None and code not in self.select):
            return False
        path = finding.location.path
        if path is None or not self.per_file_ignores:
            return True
        from preflight.check.files.discover import excluded

        return not any(
            code in codes and excluded(path, (pattern,), self.base) for pattern, codes in self.per_file_ignores
        )


def for_persona(finding: Finding, persona: Persona, rule_persona: Persona = "regular") -> bool:
    """Whether a persona sees a finding.

    ``regular`` sees errors and warnings that are at least likely.
    ``pedantic`` also sees notes that are at least likely, what is only possible otherwise, and pedantic rules.
    ``audit`` sees everything.
    """
    if persona == "audit":
        return True
    if PERSONAS.index(rule_persona) > PERSONAS.index(persona):
        return False
    weak = (finding.severity == "info") + (finding.confidence == "possible")
    return weak <= (1 if persona == "pedantic" else 0)


def visible(findings: Iterable[Finding], selection: Selection) -> list[Finding]:
    """The findings that are shown, in their order."""
    kept = [finding for finding in findings if selection.chosen(finding)]
    if selection.persona == "audit" or not kept:
        return kept
    from preflight.check.registry import load_rules

    personas = {loaded.rule.code: loaded.rule.persona for loaded in load_rules()}
    if any(f.code not in personas for f in kept):  # of a dry run, or a notice; their files are read only for this
        from preflight.check.notices import all_rules

        personas = {loaded.rule.code: loaded.rule.persona for loaded in all_rules()}
    return [f for f in kept if for_persona(f, selection.persona, personas.get(f.code, "regular"))]


def codes_of(selectors: Sequence[str], where: str) -> frozenset[str]:
    """The codes that selectors stand for: rules by name or code, beginnings of codes (``MEM``), families, ``all``.

    Raises:
        UsageError: A selector stands for no rule; the hint names the nearest.
    """
    chosen: set[str] = set()
    for selector in selectors:
        codes = match_selector(selector)
        if not codes:
            from preflight.check.notices import all_rules

            near = nearest_rule(selector)
            families = ", ".join(sorted({loaded.family for loaded in all_rules()}))
            raise UsageError(
                f"{where}: no rule is called {selector!r}",
                f"did you mean {near}?"
                if near
                else f"a rule's name or code, the letters of a group of codes, or one of {families}",
            )
        chosen |= codes
    return frozenset(chosen)


def match_selector(selector: str) -> frozenset[str]:
    """The codes that one selector stands for; none when it stands for nothing."""
    from preflight.check.notices import all_rules

    wanted = selector.strip().lower().replace("_", "-")
    if not wanted:
        return frozenset()
    rules = all_rules()
    exact = frozenset(r.rule.code for r in rules if wanted in (r.rule.name, r.rule.code.lower()))
    if exact:
        return exact
    return frozenset(
        r.rule.code
        for r in rules
        if wanted in (r.family, "all")
        or (len(wanted) >= 2 and wanted[:1].isalpha() and r.rule.code.lower().startswith(wanted))
    )


def nearest_rule(selector: str) -> str | None:
    """The rule or family whose name or code is closest to a word, or None when none is close."""
    from preflight.check.notices import all_rules

    rules = all_rules()
    words = [r.rule.name for r in rules] + [r.rule.code.lower() for r in rules] + sorted({r.family for r in rules})
    near = nearest(selector.strip().lower().replace("_", "-"), words)
    return near.upper() if near is not None and any(near == r.rule.code.lower() for r in rules) else near


def conclude(report: Report, findings: Sequence[Finding], selection: Selection) -> Verdict:
    """The verdict that remains when only some findings of a report are looked at."""
    memory = report.memory
    if any(selection.decides(finding) for finding in findings) or (memory is not None and memory.fits == "no"):
        return "NO-GO"
    if report.verdict != "NO-GO":
        return report.verdict
    # What made it NO-GO is not looked at any more; without it, the two reasons for UNKNOWN are left.
    if LIBRARY_NOTE in report.notes:
        return "GO"
    if not trains(report.facts) or (
        memory is not None and memory.capacity_bytes is not None and memory.fits == "unknown"
    ):
        return "UNKNOWN"
    return "GO"
