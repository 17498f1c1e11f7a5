"""The file that blocks are appended to: whole blocks or none, and never another's file."""

from __future__ import annotations

import contextlib
import errno
import os
import sys

_FOR_GOOD = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EISDIR})
"""Errors of opening that waiting does not cure."""


class Segment:
    """A file of blocks, open for as long as the process lives.

    Attributes:
        path: Its path.
        size: Bytes of whole blocks in it.
        error: What the last attempt to write failed with, or None.
    """

    def __init__(self, path: str) -> None:
        """Open a new file; where one is there already, one with a number before its ending."""
        self.path = path
        self.size = 0
        self.error: str | None = None
        self._asked = path
        self._descriptor = -1
        self._identity: tuple[int, int] | None = None
        self._given_up = False
        self._open()

    def append(self, data: bytes) -> bool:
        """Append a block; say whether it is in the file. Where it is not, the file ends as it did before."""
        if self._given_up or not (self._is_ours() or self._open()):
            return False
        try:
            view = memoryview(data)
            while view:
                written = os.write(self._descriptor, view)
                if written <= 0:
                    raise OSError(errno.EIO, "nothing was written")
                view = view[written:]
        except OSError as error:
            self._say(error)
            # A torn block stays where this fails too; the reader goes on at the next magic and names it.
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self.size)
            return False
        self.size += len(data)
        self.error = None
        return True

    def replace(self, start: int, data: bytes) -> bool:
        """Put a block in the place of the last ones, from ``start`` on, which are longer; say whether it is there.

        That is how a file on a full disk comes to its end.
        """
        if len(data) >= self.size - start or not self._is_ours():
            return False
        try:
            os.ftruncate(self._descriptor, start)
        except OSError:
            return False
        self.size = start
        return self.append(data)

    def close(self) -> None:
        """Close the file."""
        if self._is_ours():
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
        self._descriptor = -1
        self._given_up = True

    forget = close

    def _is_ours(self) -> bool:
        """Whether the descriptor is still our file: a program that closes all of them may have opened another there."""
        if self._descriptor < 0:
            return False
        try:
            now = os.fstat(self._descriptor)
        except OSError:
            self._descriptor = -1
            return False
        if (now.st_dev, now.st_ino) == self._identity:
            return True
        self._descriptor = -1
        return False

    def _open(self) -> bool:
        """Open the file anew, or a free name beside it the first time."""
        flags = os.O_WRONLY | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        try:
            if self._identity is None:
                self._descriptor = self._create(flags | os.O_CREAT | os.O_EXCL)
                self._identity = self._stat()
                _lock(self._descriptor)
                return True
            self._descriptor = os.open(self.path, flags)
            if self._stat() == self._identity:
                _lock(self._descriptor)
                return True
            os.close(self._descriptor)
            self._descriptor = -1
            self._given_up = True
            self.error = "the trace file was replaced by another one"
        except OSError as error:
            self._say(error)
            self._given_up = error.errno in _FOR_GOOD
        return False

    def _stat(self) -> tuple[int, int]:
        now = os.fstat(self._descriptor)
        return now.st_dev, now.st_ino

    def _create(self, flags: int) -> int:
        stem, ending = os.path.splitext(self._asked)
        for number in range(1, 10_000):
            path = self._asked if number == 1 else f"{stem}.{number}{ending}"
            try:
                descriptor = os.open(path, flags, 0o666)
            except FileExistsError:
                continue
            self.path = path
            return descriptor
        raise FileExistsError(errno.EEXIST, "too many files of this name", self._asked)

    def _say(self, error: OSError) -> None:
        self.error = f"{errno.errorcode.get(error.errno or 0, 'OSError')}: {error.strerror or error}"


def _lock(descriptor: int) -> None:
    """Lock the file for as long as it is open, by which a reader knows that its writer lives."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(Exception):
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
