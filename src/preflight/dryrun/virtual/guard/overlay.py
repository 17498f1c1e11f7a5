"""The scratch folder that lies over the files of the machine while a script runs."""

from __future__ import annotations

import builtins
import os
import shutil
import stat
from collections import Counter
from collections.abc import Iterator
from typing import Any

_open = builtins.open


class Overlay:
    """Where a path really leads while the script runs.

    Args:
        scratch: The folder that may be written to.
    """

    def __init__(self, scratch: str) -> None:
        self.scratch = os.path.join(os.path.realpath(scratch), "")
        self.files = os.path.join(self.scratch, "files")
        self.gone: set[str] = set()
        """What the script has removed or renamed, and has not made anew."""
        self.emptied: set[str] = set()
        """Folders whose files it has removed with them: made anew they are empty."""
        self.refused: Counter[str] = Counter()

    def mine(self, path: Any) -> bool:
        """Whether a path may be written to as it is: the scratch folder, a device, an open file."""
        if isinstance(path, int) or path is None:
            return True
        whole = os.path.abspath(os.fsdecode(path))
        return self._inside(whole) or (whole.startswith("/dev/") and _device(whole))

    def holds(self, path: Any, folder: Any = -1) -> bool:
        """Whether a thing lies in the scratch folder, so that it may be removed, renamed or given other rights.

        Args:
            path: A path, or the number of an open file, which may be one of the machine's that was opened to be read.
            folder: The number of the open folder that a path starts from, or -1.
        """
        whole = place_of(path) if isinstance(path, int) else place_in(path, folder)
        return whole is not None and self._inside(whole)

    def _inside(self, whole: str) -> bool:
        return whole.startswith(self.scratch) or whole + os.sep == self.scratch

    def above(self, path: Any) -> str:
        """Return the place in the scratch folder that stands for a path."""
        return self.files + os.path.abspath(os.fsdecode(path)).replace(":", "", 1)

    def hidden(self, whole: str) -> bool:
        """Whether what lies at a path of the machine is no longer there for the script."""
        if whole in self.gone:
            return True
        while self.emptied and whole != (whole := os.path.dirname(whole)):
            if whole in self.emptied:
                return True
        return False

    def shows(self, whole: str) -> bool:
        """Whether the script still sees what a folder of the machine holds."""
        return really(whole) and whole not in self.gone and not self.hidden(os.path.join(whole, "any file"))

    def there(self, whole: str) -> bool:
        """Whether something lies at a path, as the script sees it."""
        return exists(self.above(whole)) or (really(whole) and not self.hidden(whole))

    def reading(self, path: Any) -> Any:
        """Return where a path is read from."""
        if self.mine(path):
            return path
        above = self.above(path)
        if exists(above):
            return above
        if self.hidden(os.path.abspath(os.fsdecode(path))):
            return above  # which is not there, so that the error is the usual one
        return path

    def writing(self, path: Any, keep: bool = False) -> Any:
        """Return where a path is written to.

        Args:
            path: The path that the script named.
            keep: Whether what the file holds now is needed.
        """
        if self.mine(path):
            return path
        above, whole = self.above(path), os.path.abspath(os.fsdecode(path))
        parent = os.path.dirname(whole)
        if not self.there(parent):
            return above if really(parent) else path  # the usual error: there is no such folder
        makedirs(os.path.dirname(above), exist_ok=True)
        if keep and not exists(above) and not self.hidden(whole) and os.path.isfile(whole):
            copyfile(whole, above)
        self.gone.discard(whole)
        return above


exists, makedirs = os.path.lexists, os.makedirs
lstat, _stat = os.lstat, os.stat


def _device(whole: str) -> bool:
    """Whether what lies in ``/dev`` takes what is written without keeping it: no disk and no file."""
    if whole.startswith(("/dev/fd/", "/dev/std")):
        return True
    try:
        return stat.S_ISCHR(_stat(whole).st_mode)
    except (OSError, ValueError):
        return False


def place_of(number: int) -> str | None:
    """Return where an open file or folder lies; None where the system does not say."""
    try:
        return os.readlink(f"/proc/self/fd/{number}")
    except OSError:
        return None


def place_in(path: Any, folder: Any) -> str | None:
    """Return the whole of a path that starts from an open folder, where its number is one."""
    plain = os.fsdecode(path)
    if os.path.isabs(plain) or not isinstance(folder, int) or folder < 0:
        return os.path.abspath(plain)
    above = place_of(folder)
    return None if above is None else os.path.abspath(os.path.join(above, plain))


def really(path: str) -> bool:
    """Whether something is there outside the scratch folder."""
    try:
        lstat(path)
    except (OSError, ValueError):
        return False
    return True


def copyfile(source: str, target: str) -> None:
    """Copy a file, past what is redirected."""
    with _open(source, "rb") as read, _open(target, "wb") as write:
        shutil.copyfileobj(read, write)


class Scanned:
    """What ``os.scandir`` gives for a folder and its twin in the scratch folder."""

    def __init__(self, parts: list[Any], gone: set[str]) -> None:
        self._parts, self._gone, self._names = parts, gone, set[str]()
        self._entries = self._each()

    def _each(self) -> Iterator[Any]:
        for part in self._parts:
            for entry in part:
                if entry.name not in self._names and os.path.abspath(entry.path) not in self._gone:
                    self._names.add(entry.name)
                    yield entry

    def __iter__(self) -> Iterator[Any]:
        return self._entries

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> Scanned:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the folders."""
        for part in self._parts:
            part.close()
