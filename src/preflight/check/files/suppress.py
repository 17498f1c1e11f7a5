"""Suppression comments applied: which findings they hide, and which comments do nothing.

* ``# preflight: ignore[rule, CODE] reason`` covers its line; on the first or last line of a statement, all of it;
  alone on a line, the statement below.
* ``# preflight: off[rule]`` covers what follows until ``# preflight: on[rule]`` or the end of the file.
* ``# preflight: ignore-file[rule]`` covers the file.

A rule is named by its name, its code, the beginning of codes (``MEM``) or its family; without brackets all are meant.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from preflight.check.files.comments import DIRECTIVES, Directive, Statements, directives
from preflight.check.selection import MARK
from preflight.errors import InputError, nearest
from preflight.source.script import Script, read_script
from preflight.vocabulary.finding import Edit, Finding, Location

_WIDEST = frozenset({"*"})


class _Cover:
    """Lines from ``first`` to ``last`` on which the codes of one name in one comment are hidden."""

    __slots__ = ("codes", "directive", "first", "last", "name", "used")

    def __init__(self, directive: Directive, name: str, codes: frozenset[str], first: int, last: float) -> None:
        self.directive = directive
        self.name = name
        self.codes = codes
        self.first = first
        self.last = last
        self.used = False

    def hides(self, code: str, lines: set[int]) -> bool:
        return (self.codes is _WIDEST or code in self.codes) and any(self.first <= line <= self.last for line in lines)


class Suppressions:
    """The suppression comments of one file.

    Attributes:
        script: The file.
        directives: Its comments, in order.
    """

    def __init__(self, script: Script) -> None:
        """Read the comments, if the text has any."""
        self.script = script
        self.directives = directives(script.text)
        self._unknown: list[tuple[Directive, str, str, str | None]] = []
        self._alone = {d.line: d for d in self.directives if d.alone}
        self._statements = Statements(script.tree) if self.directives else None
        self._covers = self._read()

    def hides(self, finding: Finding) -> bool:
        """Whether a comment hides a finding; the comment then counts as used."""
        if not self._covers or finding.location.line is None:
            return False
        line = self._line(finding.location)
        lines = self._lines_for(line)
        hidden = False
        for cover in self._covers:
            wide = cover.directive.word != "ignore"
            if cover.hides(finding.code, {line} if wide else lines):
                cover.used = hidden = True
        return hidden

    def notices(self, evaluated: Sequence[str]) -> list[Finding]:
        """What is wrong with the comments themselves.

        Args:
            evaluated: Codes of the rules that ran; a comment for another may well be needed.
        """
        from preflight.check.notices import unknown_suppression, unused_suppression

        found: list[Finding] = []
        for directive, kind, word, near in self._unknown:
            found.append(
                unknown_suppression.finding_for(
                    self._place(directive), kind, word, near, self._correct(directive, word, near)
                )
            )
        ran = set(evaluated)
        for directive in self.directives:
            covers = [c for c in self._covers if c.directive is directive]
            idle = [c for c in covers if not c.used and (c.codes is _WIDEST or c.codes <= ran)]
            if idle:
                names = [c.name for c in idle if c.name]
                found.append(
                    unused_suppression.finding_for(
                        self._place(directive), names, self._remove(directive, names, len(covers) == len(idle))
                    )
                )
        return found

    # ---- reading

    def _read(self) -> list[_Cover]:
        covers: list[_Cover] = []
        for index, directive in enumerate(self.directives):
            if directive.word not in DIRECTIVES:
                near = nearest(directive.word.lower(), DIRECTIVES)
                # "# preflight: this is prose" is nobody's mistake; "ingore" and "ingore[...]" are.
                if directive.bracketed or (near is not None and not directive.reason):
                    self._unknown.append((directive, "directive", directive.word, near))
                continue
            first, last = self._range(index, directive)
            for name, codes in self._named(directive):
                if directive.word != "on":
                    covers.append(
                        _Cover(
                            directive,
                            name,
                            codes,
                            first,
                            self._end(index, name, codes) if directive.word == "off" else last,
                        )
                    )
        return covers

    def _named(self, directive: Directive) -> list[tuple[str, frozenset[str]]]:
        if not directive.rules:
            return [("", _WIDEST)]
        from preflight.check.selection import match_selector, nearest_rule

        named: list[tuple[str, frozenset[str]]] = []
        for name in directive.rules:
            codes = match_selector(name)
            if codes:
                named.append((name, codes))
            else:
                self._unknown.append((directive, "rule", name, nearest_rule(name)))
        return named

    def _range(self, index: int, directive: Directive) -> tuple[int, float]:
        if directive.word == "ignore-file":
            return 1, float("inf")
        return directive.line, float("inf") if directive.word == "off" else directive.line

    def _end(self, index: int, name: str, codes: frozenset[str]) -> float:
        for later in self.directives[index + 1 :]:
            if later.word == "on" and (
                not later.rules or name in later.rules or codes in [c for _, c in self._named_quietly(later)]
            ):
                return later.line
        return float("inf")

    def _named_quietly(self, directive: Directive) -> list[tuple[str, frozenset[str]]]:
        from preflight.check.selection import match_selector

        return [(name, match_selector(name)) for name in directive.rules]

    # ---- places

    def _lines_for(self, line: int) -> set[int]:
        """The lines on which an ``ignore`` comment speaks about a line."""
        assert self._statements is not None
        first, last = self._statements.around(line)
        lines = {line, first, last}
        for start in (first, line):
            above = start - 1
            while above in self._alone or self._is_comment(above):
                if above in self._alone:
                    lines.add(above)
                above -= 1
        # A comment alone on a line speaks about what is below it, never about the line above.
        return {n for n in lines if n not in self._alone or n < line}

    def _is_comment(self, line: int) -> bool:
        return 0 < line <= len(self.script.lines) and self.script.lines[line - 1].lstrip().startswith("#")

    def _line(self, location: Location) -> int:
        line = location.line or 1
        cells = self.script.cells
        if location.cell is not None and 0 < location.cell <= len(cells):
            return line + cells[location.cell - 1] - 1
        return line

    def _place(self, directive: Directive) -> Location:
        line, cells = directive.line, self.script.cells
        cell = sum(1 for first in cells if first <= line) or None
        shown = line - cells[cell - 1] + 1 if cell else line
        return Location(self.script.path, shown, directive.start + 1, shown, directive.end + 1, cell=cell)

    # ---- edits

    def _remove(self, directive: Directive, names: list[str], whole: bool) -> Edit | None:
        if self.script.cells:
            return None
        path, line = self.script.path, directive.line
        text = self.script.lines[line - 1]
        if not whole:
            kept = ", ".join(rule for rule in directive.rules if rule not in names)
            end = text.find("]", directive.names_at)
            return Edit(path, line, directive.names_at + 1, line, end + 1, kept) if end >= 0 else None
        before = text[: directive.start]
        if not before.strip() and not text[directive.end :].strip():
            return Edit(path, line, 1, line + 1, 1, "")
        return Edit(path, line, len(before.rstrip()) + 1, line, directive.end + 1, "")

    def _correct(self, directive: Directive, word: str, near: str | None) -> Edit | None:
        if near is None or self.script.cells:
            return None
        at = self.script.lines[directive.line - 1].find(word, directive.start)
        return (
            Edit(self.script.path, directive.line, at + 1, directive.line, at + len(word) + 1, near)
            if at >= 0
            else None
        )


def apply_suppressions(
    script: Script, findings: Iterable[Finding], not_evaluated: Iterable[str]
) -> tuple[list[Finding], int]:
    """Hide what comments hide, in the script and in the modules that findings are in.

    Args:
        script: The script that was checked.
        findings: All findings, before anything else is left out.
        not_evaluated: Codes of rules that could not be evaluated.

    Returns:
        The findings that remain, with those about the script's own comments; and how many were hidden.
    """
    files: dict[str, Suppressions | None] = {script.path: Suppressions(script) if MARK in script.text else None}
    kept: list[Finding] = []
    hidden = 0
    for finding in findings:
        path = finding.location.path
        if path is not None and path not in files:
            files[path] = _of_module(path)
        comments = files.get(path) if path is not None else None
        if comments is not None and comments.hides(finding):
            hidden += 1
        else:
            kept.append(finding)
    own = files[script.path]
    if own is not None:
        from preflight.check.registry import load_rules

        skipped = set(not_evaluated)
        kept += own.notices([loaded.rule.code for loaded in load_rules() if loaded.rule.code not in skipped])
    return kept, hidden


def _of_module(path: str) -> Suppressions | None:
    """The comments of a module of the project, or None when it has none or cannot be read."""
    from pathlib import Path

    try:
        if not os.path.isfile(path):
            return None
        with open(path, "rb") as file:
            if MARK.encode() not in file.read():
                return None
        return Suppressions(read_script(Path(path), path))
    except (InputError, OSError):
        return None
