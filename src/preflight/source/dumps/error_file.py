"""``error.json`` of torch elastic: the last words of a rank, as its own process wrote them before it ended.

Two forms: of Python, with the stack, and of the launcher, which knows only the exit code and the signal.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from preflight.source.dumps.part import Part
from preflight.vocabulary.log import Ending, Frame, Hit, LogFile, Raised, Who

KIND = "exit"
TEXT = True

_NAMES = re.compile(r"(?i)error[^/]*\.json$|(?:^|[/_.-])error\.json$|reply[^/]*\.json$")
_RANK = re.compile(r"(?i)rank[_.-]?(\d+)")
_EXCEPTION = re.compile(r"^([A-Za-z_][\w.]*)(?:: |\(|$)")
_FRAME = re.compile(r'^  File "(.+?)", line (\d+), in (.+)$')
_LONGEST = 2000


def looks_like(name: str, head: bytes) -> bool:
    """Tell by the keys: a message with a time, or a message that holds both."""
    start = head.lstrip()
    if start[:1] != b"{" or b'"message"' not in head:
        return False
    return (b'"extraInfo"' in head and b'"timestamp"' in head) or (
        _NAMES.search(name) is not None
        and (b'"errorTraits"' in head or b'"timestamp"' in head or b'"error_code"' in head)
    )


def read(content: bytes, file: LogFile) -> Part:
    """Read the last words of a rank."""
    import json

    text, problem = content.decode("utf-8", "replace"), None
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError) as error:
        from preflight.source.dumps.cut_json import salvage

        loaded, problem = salvage(text), f"not whole JSON: {error}"
    if not isinstance(loaded, dict):
        return Part(problem=problem or "no error in it")
    message = loaded.get("message")
    inner: dict[str, Any] = message if isinstance(message, dict) else loaded
    words = str(inner.get("message") or (message if isinstance(message, str) else "") or "")
    more = inner.get("extraInfo")
    more = more if isinstance(more, dict) else {}
    named = _RANK.search(file.path.replace("\\", "/").rpartition("/")[2])
    who = (
        file.who
        if file.who.rank is not None or not named
        else msgspec.structs.replace(file.who, rank=int(named.group(1)))
    )
    time = _time(more.get("timestamp", inner.get("timestamp")))
    code = more.get("error_code", inner.get("errorCode", inner.get("error_code")))
    ending = Ending(
        about=who,
        code=code if isinstance(code, int) and not isinstance(code, bool) else None,
        teller="error.json",
        time=time,
        time_error=1.0,  # whole seconds
        message=words[:_LONGEST] or None,
        file=file.index,
        line=1,
    )
    raised = _raised(words, str(more.get("py_callstack") or ""), file, who, time)
    return Part(
        who=who,
        lines=content.count(b"\n") + 1,
        first_time=time,
        last_time=time,
        endings=(ending,),
        raised=(raised,) if raised else (),
        problem=problem,
    )


def _time(value: Any) -> float | None:
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return seconds if 0 < seconds < 1e11 else None


def _raised(words: str, stack: str, file: LogFile, who: Who, time: float | None) -> Raised | None:
    found = _EXCEPTION.match(words)
    if not found or not stack:
        return None
    frames = tuple(
        Frame(match.group(1), int(match.group(2)), match.group(3))
        for match in (_FRAME.match(line) for line in stack.splitlines())
        if match
    )
    hit = Hit(
        signature="", file=file.index, line=1, offset=0, text=words[:_LONGEST], who=who, time=time, time_error=1.0
    )
    return Raised(exception=found.group(1), message=_said(words, found.group(1))[:_LONGEST], frames=frames, hit=hit)


def _said(words: str, exception: str) -> str:
    rest = words[len(exception) :]
    return rest[2:] if rest.startswith(": ") else rest.strip("()")
