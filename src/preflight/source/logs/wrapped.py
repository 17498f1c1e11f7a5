"""Takes a line out of the JSON that a container's or a program's logger wrapped it in."""

from __future__ import annotations

import re

import msgspec

from preflight.source.logs.prefixes import plain

_WRAPPED = re.compile(
    r'^\{"(?:log|message|msg|time|timestamp|ts|level|stream|severity|asctime|@timestamp|text|event|rank)":'
)
_MESSAGE = ("log", "message", "msg", "text", "event")
_RAISED = ("exc", "exc_info", "exception", "traceback", "stack_trace", "stack_info", "error.stack_trace")
"""Where loggers put the traceback of an exception."""
_WHEN = ("time", "timestamp", "ts", "@timestamp", "asctime")


def unwrapped(text: str) -> str:
    """Return a line that a container's or a program's logger wrapped in JSON as it would stand in a plain log."""
    if text[:2] != '{"' or not _WRAPPED.match(text):
        return text
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
    message = next((found[key] for key in _MESSAGE if isinstance(found.get(key), str)), None)
    if message is None:
        return text
    when = next((found[key] for key in _WHEN if isinstance(found.get(key), (str, int, float))), "")
    rank = found.get("rank", found.get("global_rank"))
    level = found.get("level", found.get("severity", found.get("levelname")))
    raised = next((found[key] for key in _RAISED if isinstance(found.get(key), str) and found[key].strip()), "")
    if raised:  # its breaks as letters, as a traceback stands in one line
        message = message.rstrip() + " " + raised.rstrip().replace("\n", "\\n")
    parts = [
        str(when),
        f"[rank{rank}]:" if isinstance(rank, int) and not isinstance(rank, bool) and rank >= 0 else "",
        level.upper() if isinstance(level, str) else "",
        plain(message.rstrip("\r\n")).replace("\n", " "),
    ]
    return " ".join(part for part in parts if part)
