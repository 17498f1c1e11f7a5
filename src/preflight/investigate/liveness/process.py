"""How a process of this machine is: there, stopped or gone."""

from __future__ import annotations

import os
from typing import Any


def place() -> str:
    """Name the space in which a process number means something: this boot of this machine, and this container's numbers."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        import socket

        return socket.gethostname()


def began(pid: int) -> int | None:
    """Return when a process began, in ticks since the machine did: a number may be given to a later process again."""
    fields = _status(pid)
    return int(fields[19]) if fields else None


def myself() -> dict[str, Any]:
    """Return what others need in order to look at this process."""
    import socket

    return {"pid": os.getpid(), "began": began(os.getpid()), "place": place(), "node": socket.gethostname()}


def look(who: dict[str, Any]) -> str | None:
    """Return ``gone``, ``stopped`` or ``there`` of a process; None where it is of another machine."""
    pid = who.get("pid")
    if who.get("place") != place() or not isinstance(pid, int):
        return None
    fields = _status(pid)
    if fields is None:
        return None if not os.path.isdir("/proc/self") else "gone"
    if who.get("began") not in (None, int(fields[19])) or fields[0] in "ZX":
        return "gone"
    return "stopped" if fields[0] in "Tt" else "there"


def _status(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat behind the name, the state first."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None
