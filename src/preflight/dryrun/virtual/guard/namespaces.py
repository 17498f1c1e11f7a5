"""Takes the network and the right to write from this process by the kernel, where it lets us: native code cannot go around that.

Linux only, and best effort: a container may forbid it. What was reached is told in the report.
"""

from __future__ import annotations

import ctypes
import os
import sys

_USER, _NET, _MOUNT = 0x10000000, 0x40000000, 0x00020000  # CLONE_NEWUSER, CLONE_NEWNET, CLONE_NEWNS
_RECURSIVE, _PRIVATE, _BIND = 0x4000, 1 << 18, 0x1000  # MS_REC, MS_PRIVATE, MS_BIND
_MOUNT_SETATTR = 442  # the same number on x86-64 and on ARM
_AT_FDCWD, _AT_RECURSIVE, _READ_ONLY = -100, 0x8000, 1


class _Attributes(ctypes.Structure):
    """``struct mount_attr``."""

    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("user", ctypes.c_uint64),
    )


def enter(scratch: str) -> list[str]:
    """Leave the network, and let nothing be written but the scratch folder; return what was reached.

    Must be called while the process has one thread. Nothing that fails here ends the run: the hooks of ``guard`` stay.

    Args:
        scratch: The folder that may be written to.
    """
    if not sys.platform.startswith("linux"):
        return []
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if not _separate(libc, _NET | _MOUNT):
            return ["network"] if _separate(libc, _NET) else []
        return ["network", "files"] if _close(libc, os.path.realpath(scratch).encode()) else ["network"]
    except (OSError, AttributeError, ValueError):
        return []


def _separate(libc: ctypes.CDLL, kinds: int) -> bool:
    """Get namespaces of our own: as the administrator directly, as anybody else in a user namespace."""
    if os.geteuid() == 0 and libc.unshare(kinds) == 0:
        return True
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(kinds | _USER) != 0:
        return False
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        try:
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
        except OSError:
            return True  # the namespaces stand; without a map, files of others may not be readable
    return True


def _close(libc: ctypes.CDLL, scratch: bytes) -> bool:
    """Make every mount read-only but the scratch folder, and shared memory one of our own."""
    nothing = ctypes.c_char_p(None)
    if libc.mount(b"none", b"/", nothing, _RECURSIVE | _PRIVATE, nothing) != 0:
        return False
    if libc.mount(scratch, scratch, nothing, _BIND, nothing) != 0:
        return False
    libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, b"size=25%")
    closed = _set(libc, b"/", _AT_RECURSIVE, _Attributes(set=_READ_ONLY))
    opened = all(_set(libc, place, 0, _Attributes(clear=_READ_ONLY)) for place in (scratch, b"/dev/shm"))
    if closed and not opened:
        _set(libc, b"/", _AT_RECURSIVE, _Attributes(clear=_READ_ONLY))
    return closed and opened


def _set(libc: ctypes.CDLL, place: bytes, flags: int, attributes: _Attributes) -> bool:
    size = ctypes.sizeof(attributes)
    return bool(libc.syscall(_MOUNT_SETATTR, _AT_FDCWD, place, flags, ctypes.byref(attributes), size) == 0)
