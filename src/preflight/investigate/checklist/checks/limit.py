"""A limit of this shell's processes is high enough: open files, locked memory, processes."""

from __future__ import annotations

from preflight.investigate.checklist.checks import Seen

_NAMES = {"open-files": "RLIMIT_NOFILE", "locked-memory": "RLIMIT_MEMLOCK", "processes": "RLIMIT_NPROC"}


def check(of: str, least: int | None = None) -> Seen:
    """Ask the system; without ``least`` it has to be unlimited."""
    try:
        import resource

        soft, hard = resource.getrlimit(getattr(resource, _NAMES[of]))
    except (ImportError, AttributeError, KeyError):
        return Seen("unknown", f"{of}: this system does not tell")
    if soft == resource.RLIM_INFINITY:
        return Seen("pass", f"{of}: unlimited")
    enough = least is not None and soft >= least
    more = (
        "" if hard == soft else f" (may be raised to {'unlimited' if hard == resource.RLIM_INFINITY else f'{hard:,}'})"
    )
    return Seen(
        "pass" if enough else "fail",
        f"{of}: {soft:,}{more}, {'unlimited' if least is None else f'{least:,}'} is needed",
    )
