"""What a rule of layer V sees: the profile of a dry run, with the reading of the script beside it."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from preflight.check.context import Context
from preflight.check.rule import Rule
from preflight.source.script import Script
from preflight.vocabulary.finding import Confidence, Evidence, Finding, Fix, Location, Related, Severity
from preflight.vocabulary.profile import Profile
from preflight.vocabulary.seen import ModuleSeen, Observation, OptimizerSeen, ParameterSeen


class Run:
    """One dry run.

    Attributes:
        profile: What was seen.
        context: What reading the script says of it.
    """

    def __init__(self, profile: Profile, context: Context) -> None:
        """Keep both."""
        self.profile, self.context = profile, context
        script = context.reading.script
        self.script = script
        folder = Path(script.file).parent if script.file is not None else Path()
        self.root = os.path.realpath(context.reading.project.root or folder)

    @property
    def complete(self) -> bool:
        """Whether it got through two optimizer steps and did not fail."""
        return self.profile.steps > 1 and self.profile.outcome in ("ended", "stopped", "exited")

    # ---- what rules ask for

    @cached_property
    def _by_what(self) -> dict[str, list[Observation]]:
        found: dict[str, list[Observation]] = {}
        for item in self.profile.observations:
            found.setdefault(item.what, []).append(item)
        return found

    def seen(self, *what: str, phase: str | None = None) -> list[Observation]:
        """The observations of these kinds, in order."""
        found = [item for name in what for item in self._by_what.get(name, ())]
        if phase is not None:
            found = [item for item in found if item.phase == phase]
        return sorted(found, key=lambda item: item.order) if len(what) > 1 else found

    def seen_at(self, location: Location, *what: str) -> list[Observation]:
        """The observations of these kinds at a place of the script."""
        return [item for item in self.seen(*what) if self.place(item.line) == Location(location.path, location.line)]

    def between(self, after: Observation, before: Observation, *what: str) -> list[Observation]:
        """The observations of these kinds between two others."""
        return [item for item in self.seen(*what) if after.order < item.order < before.order]

    @property
    def optimizers(self) -> tuple[OptimizerSeen, ...]:
        """The optimizers that were made; observations name them by their place here."""
        return self.profile.made

    @cached_property
    def trained(self) -> frozenset[int]:
        """The networks of which a parameter got a gradient."""
        return frozenset(p.network for p in self.profile.parameters if p.network is not None and p.gradients)

    def parameters(self, network: int) -> list[ParameterSeen]:
        """The parameters of a network."""
        return [p for p in self.profile.parameters if p.network == network]

    def modules(self, network: int) -> list[ModuleSeen]:
        """The modules of a network."""
        return [m for m in self.profile.modules if m.network == network]

    def raised(self, *words: str) -> bool:
        """Whether the script ended with an exception whose message has all these words."""
        text = (self.profile.message or "").lower()
        return self.profile.outcome == "failed" and all(word.lower() in text for word in words)

    @property
    def raised_at(self) -> str:
        """``file:line`` of the script's own innermost frame of the exception."""
        if not self.profile.frames:
            return ""
        last = self.profile.frames[-1]
        return f"{os.path.relpath(os.path.realpath(last.file), self.root)}:{last.line}"

    def reached(self, location: Location) -> bool | None:
        """Whether the block that holds a place was run; None where that is not known."""
        script = self._script(location.path)
        if script is None or location.line is None or script.file is None:
            return None
        lines = self.profile.reached.get(os.path.realpath(script.file))
        if lines is None:
            lines = self.profile.reached.get(str(script.file))
        if lines is None:
            return None
        first = _block(script, location.line)
        return True if first is None else first in lines

    def _script(self, path: str | None) -> Script | None:
        return next((s for s in self.context.reading.scripts if s.path == path), None)

    # ---- places

    def place(self, line: str) -> Location:
        """The location of ``file:line`` as observations give it; of the whole script where the line is not known."""
        name, _, number = line.rpartition(":")
        if not name or not number.isdigit():
            return Location(path=self.script.path, line=1)
        whole = os.path.realpath(os.path.join(self.root, name))
        if self.script.file is not None and whole == os.path.realpath(self.script.file):
            return Location(path=self.script.path, line=int(number))
        return Location(path=self.context.reading.project.shown(Path(whole)), line=int(number))

    def text(self, line: str) -> str:
        """The source text of ``file:line``, stripped; empty where the file was not read."""
        place = self.place(line)
        script = self._script(place.path)
        if script is None or place.line is None or not 0 < place.line <= len(script.lines):
            return ""
        return script.lines[place.line - 1].strip()

    def raises(self, line: str) -> bool:
        """Whether a statement that raises, or asserts, begins at ``file:line``."""
        place = self.place(line)
        script = self._script(place.path)
        return script is not None and any(
            isinstance(node, (ast.Raise, ast.Assert)) and node.lineno == place.line for node in ast.walk(script.tree)
        )

    # ---- how rules speak

    def finding(
        self,
        rule: Rule,
        line: str,
        message: str,
        *,
        evidence: Iterable[Evidence],
        fix: Fix,
        related: Iterable[tuple[str, str]] = (),
        severity: Severity | None = None,
        confidence: Confidence | None = None,
    ) -> Finding:
        """Make a finding at a line.

        Args:
            rule: The rule that speaks.
            line: ``file:line`` as observations give it.
            message: What is wrong and why it matters, with the value seen; no full stop after one sentence.
            evidence: Values that were seen, with the arithmetic.
            fix: What to change.
            related: Further lines, and what is there.
            severity: When it differs from the rule's.
            confidence: When it differs from the rule's.
        """
        return Finding(
            rule=rule.name,
            code=rule.code,
            severity=severity or rule.severity,
            confidence=confidence or rule.confidence,
            message=message,
            location=self.place(line),
            related=tuple(Related(self.place(at), text) for at, text in related),
            evidence=tuple(evidence),
            fix=fix,
        )


def seen(what: str, value: object, unit: str | None = None) -> Evidence:
    """Evidence that was seen in the run."""
    return Evidence(what, value, unit, source="measured")  # type: ignore[arg-type]


def _block(script: Script, line: int) -> int | None:
    """The first line of the innermost block that holds a line; None for the top of the file.

    What counts as a block is what the run marks: the bodies of statements and functions, not those of classes, and no
    ``else`` that holds nothing but an ``if``.
    """
    found: int | None = None
    for node in ast.walk(script.tree):
        if isinstance(node, (ast.Module, ast.ClassDef)):
            continue
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if not isinstance(block, list) or not block or (name == "orelse" and isinstance(block[0], ast.If)):
                continue
            start, end = block[0].lineno, getattr(block[-1], "end_lineno", None) or block[-1].lineno
            if start <= line <= end and (found is None or start >= found):
                found = start
    return found
