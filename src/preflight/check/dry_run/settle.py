"""Reading and running, brought together: what the run shows is certain, what it disproves is dropped."""

from __future__ import annotations

import msgspec

from preflight.check.observed.run import Run
from preflight.check.registry import load_run_rules
from preflight.check.rule import RunRule
from preflight.vocabulary.finding import Finding, sort_key


def settle(run: Run, read: list[Finding]) -> tuple[list[Finding], list[str]]:
    """Ask the rules of layer V, and judge the findings of reading by what they say.

    Args:
        run: The dry run.
        read: The findings of reading the script.

    Returns:
        All findings in a fixed order; and notes on those that were dropped.
    """
    seen: list[Finding] = []
    settling: dict[str, RunRule] = {}
    confirming: set[str] = set()
    for loaded in load_run_rules():
        seen += loaded.observe(run)
        if loaded.settles or loaded.disproves:
            settling[loaded.rule.code] = loaded
        if not loaded.alone:
            confirming.add(loaded.rule.code)
    kept, dropped = [], []
    for finding in read:
        found = _same(finding, seen, read)
        if found is not None:
            seen.remove(found)
            kept.append(_confirmed(finding, found))
        elif _disproved(run, finding, settling):
            place = f"{finding.location.path}:{finding.location.line}"
            dropped.append(f"{finding.code} at {place} was read from the code and did not happen in the dry run")
        else:
            kept.append(finding)
    alone = [finding for finding in seen if finding.code not in confirming]
    return sorted([*kept, *_further(alone, kept)], key=sort_key), dropped


def _same(finding: Finding, seen: list[Finding], read: list[Finding]) -> Finding | None:
    """The observed finding that is the same as one of reading: at the same line, or the only one of its kind."""
    alike = [other for other in seen if other.code == finding.code and other.location.path == finding.location.path]
    for other in alike:
        if other.location.line == finding.location.line:
            return other
    alone = sum(other.code == finding.code for other in read) == 1
    return alike[0] if len(alike) == 1 and alone else None


def _confirmed(finding: Finding, found: Finding) -> Finding:
    """The finding of reading, which knows the edit, with what the run showed."""
    fix = finding.fix or found.fix
    return msgspec.structs.replace(
        finding,
        severity=found.severity,
        confidence="certain" if found.confidence != "possible" else finding.confidence,
        evidence=(*finding.evidence, *found.evidence),
        fix=fix,
    )


def _disproved(run: Run, finding: Finding, settling: dict[str, RunRule]) -> bool:
    rule = settling.get(finding.code)
    if rule is None or not run.complete or run.reached(finding.location) is not True:
        return False
    return rule.settles or (rule.disproves is not None and rule.disproves(run, finding))


def _further(findings: list[Finding], kept: list[Finding]) -> list[Finding]:
    """One finding of a rule for each line, and none where reading has a finding of it, which the run has confirmed."""
    told = {_at(finding) for finding in kept}
    further: dict[tuple[str, str | None, int | None], Finding] = {}
    for finding in findings:
        if _at(finding) not in told:
            further.setdefault(_at(finding), finding)
    return list(further.values())


def _at(finding: Finding) -> tuple[str, str | None, int | None]:
    return finding.code, finding.location.path, finding.location.line
