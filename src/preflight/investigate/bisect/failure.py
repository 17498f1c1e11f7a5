"""What a run failed with, so that one failure can be told from another."""

from __future__ import annotations

import re
import signal

HANG = "timeout"
ANY = "any"
_TAIL = 2_000_000
_RANK = re.compile(r"^(?:\[?(?:rank|default)?\d+\]?:\s*)+")
_EXCEPTION = re.compile(
    r"^(?P<name>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning)?)(?:: (?P<text>.*))?$"
)
_ALONE = re.compile(r"^(?P<name>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)): (?P<text>.+)$")
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?")
# What launchers and schedulers say when the program was never started properly, or was taken away.
_INFRA = re.compile(
    r"srun: error: (?:Unable to|Node failure|Task launch)|sbatch: error|slurmstepd: error: .*(?:NODE FAILURE|PREEMPTION)"
    r"|DUE TO (?:PREEMPTION|NODE FAILURE)|Unable to connect to the server|ImagePullBackOff|ErrImagePull"
    r"|EADDRINUSE|[Aa]ddress already in use|RendezvousTimeoutError|\d+/\d+ clients joined|Requested nodes are busy"
)
_TIME_LIMIT = re.compile(r"CANCELLED AT \S+ DUE TO TIME LIMIT")
NOT_STARTED = (125, 126)
"""Exit codes by which a person's script says that it could not test (as for ``git bisect run``)."""


def failure_of(log: str, code: int | None) -> tuple[str, str | None]:
    """Return a name for the failure of a run, the same for the same failure, and the line that tells of it.

    A known signature names it; else the first exception of its log, its numbers masked; else how the process ended.
    """
    if code is None:
        return HANG, None
    text = _read(log)
    if _TIME_LIMIT.search(text):  # the deadline of a job in a queue
        return HANG, None
    known = _signature(log)
    if known is not None:
        return known
    found = _first_exception(text)
    if found is not None:
        return found
    if code < 0:
        try:
            return f"signal {signal.Signals(-code).name}", None
        except ValueError:
            return f"signal {-code}", None
    return f"exit code {code}", _last_line(text)


def infra_of(log: str, code: int | None) -> str | None:
    """Return the line by which a launcher says that the program was not started properly, or None."""
    text = _read(log)
    found = _INFRA.search(text)
    if found is not None:
        start = text.rfind("\n", 0, found.start()) + 1
        return text[start : text.find("\n", found.end()) if "\n" in text[found.end() :] else len(text)].strip()[:300]
    return f"exit code {code}" if code in NOT_STARTED else None


def matches(wanted: str, failure: str, log: str) -> bool:
    """Return whether a failure is the one that is looked for: by its name, or by an expression found in the log."""
    if wanted in (ANY, failure):
        return True
    if not wanted.startswith("/"):
        return False
    return re.search(wanted.strip("/"), _read(log)) is not None


def _signature(log: str) -> tuple[str, str | None] | None:
    """The first line of a log that names a cause, as the catalogue of signatures knows it."""
    from preflight.catalog.signature_files import load_signatures
    from preflight.source.logs import read_logs

    roots = {one.id for one in load_signatures() if one.role == "root"}
    hits = [hit for hit in read_logs([log]).hits if hit.signature in roots]
    if not hits:
        return None
    first = min(hits, key=lambda hit: hit.line)
    return first.signature, first.text.strip()[:300]


def _first_exception(text: str) -> tuple[str, str | None] | None:
    """The line that ends the first traceback; without one, the first line that reads like an exception."""
    inside = False
    lines = [_RANK.sub("", raw) for raw in text.splitlines()]
    for line in lines:
        if line.startswith("Traceback (most recent call last)"):
            inside = True
        elif inside and line and not line[0].isspace():
            found = _EXCEPTION.match(line)
            if found is not None:
                return _named(found), line[:300]
            inside = False
    alone = next((found for line in lines if (found := _ALONE.match(line)) is not None), None)
    return None if alone is None else (_named(alone), alone.group(0)[:300])


def _named(found: re.Match[str]) -> str:
    message = _NUMBER.sub("N", found.group("text") or "")[:120]
    return f"{found.group('name')}: {message}".rstrip(": ")


def _last_line(text: str) -> str | None:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else None


def _read(log: str) -> str:
    try:
        with open(log, "rb") as file:
            data = file.read(_TAIL)
            rest = file.seek(0, 2)
            if rest > 2 * _TAIL:
                file.seek(rest - _TAIL)
                data += b"\n" + file.read()
            elif rest > _TAIL:
                file.seek(_TAIL)
                data += file.read()
    except OSError:
        return ""
    return data.decode("utf-8", "replace")


__all__ = ["ANY", "HANG", "failure_of", "infra_of", "matches"]
