"""Changes in a shell script: variables that it exports, flags of the command lines in it."""

from __future__ import annotations

import re
import shlex

from preflight.investigate.applying.values import becomes, check_word
from preflight.vocabulary.remedy import EnvironmentChange, SettingChange

_HEAD = re.compile(r"\s*(?:#.*|set\s+[-+].*|:.*)?$")


def set_variable(change: EnvironmentChange, text: str, value: str | None) -> tuple[str, str | None]:
    """Set or remove an exported variable; return the text and what was done."""
    name = change.variable
    set_there = re.compile(rf"(?m)^([ \t]*(?:export[ \t]+)?){re.escape(name)}=(\S*.*)$")
    wanted = value if value is not None else change.value
    found = set_there.search(text)
    if wanted is None:
        if found is None:
            return text, None
        gone = re.sub(rf"(?m)^[ \t]*(?:export[ \t]+)?{re.escape(name)}=.*\n?", "", text)
        return gone, f"{name} is no longer set (was {found.group(2).strip()})"
    quoted = shlex.quote(check_word(wanted))
    if found is not None:
        if found.group(2).strip() in (quoted, wanted):
            return text, None
        after = text[: found.start()] + f"{found.group(1)}{name}={quoted}" + text[found.end() :]
        return after, f"{name}={wanted} in place of {found.group(2).strip()}"
    at = _behind_head(text)
    before = text[:at]
    glue = "" if not before or before.endswith("\n") else "\n"
    return f"{before}{glue}export {name}={quoted}\n{text[at:]}", f"{name}={wanted} is exported"


def _behind_head(text: str) -> int:
    """Where the commands begin: behind comments, directives of a scheduler and ``set`` lines."""
    at = 0
    for line in text.splitlines(keepends=True):
        if not _HEAD.match(line.rstrip("\r\n")):
            break
        at += len(line)
    while at and text[:at].endswith("\n\n"):
        at -= 1
    return at


def set_flag(change: SettingChange, text: str, value: str | None) -> tuple[str, str | None]:
    """Change the value of a flag; return the text and what was done."""
    for name in change.names:
        spelling = "[-_]".join(re.escape(part) for part in re.split(r"[-_]", name))
        flag = re.compile(rf"(--{spelling})([= \t]+)((?!-)(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s\\;|&]+))")
        for found in flag.finditer(text):
            if _in_comment(text, found.start()):
                continue
            new = becomes(change, found.group(3), check_word(value) if value is not None else None, "plain")
            if new is not None:
                after = text[: found.start(3)] + new + text[found.end(3) :]
                return after, f"{found.group(1)} {new} in place of {found.group(3)}"
    return text, None


def _in_comment(text: str, at: int) -> bool:
    return text[text.rfind("\n", 0, at) + 1 : at].lstrip().startswith("#")


__all__ = ["set_flag", "set_variable"]
