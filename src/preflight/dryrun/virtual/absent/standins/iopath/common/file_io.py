"""Local files, in the place of iopath; what is on the network is missing."""

from __future__ import annotations

import os
import shutil
from typing import Any


class PathHandler:
    """Opens the paths of some prefixes."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Local files need no settings."""


NativePathHandler = HTTPURLHandler = OneDrivePathHandler = S3PathHandler = PathHandler


class PathManager:
    """Opens, lists and copies local files."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Local files need no settings."""

    def open(self, path: str, mode: str = "r", buffering: int = -1, **kwargs: Any) -> Any:
        """Open a file."""
        return open(path, mode, buffering, **kwargs)

    def exists(self, path: str, **_: Any) -> bool:
        """Whether a path is there."""
        return os.path.exists(path)

    def isfile(self, path: str, **_: Any) -> bool:
        """Whether a file is there."""
        return os.path.isfile(path)

    def isdir(self, path: str, **_: Any) -> bool:
        """Whether a folder is there."""
        return os.path.isdir(path)

    def ls(self, path: str, **_: Any) -> list[str]:
        """Return what is in a folder."""
        return os.listdir(path)

    def mkdirs(self, path: str, **_: Any) -> None:
        """Make a folder."""
        os.makedirs(path, exist_ok=True)

    def rm(self, path: str, **_: Any) -> None:
        """Remove a file."""
        os.remove(path)

    def copy(self, src_path: str, dst_path: str, overwrite: bool = False, **_: Any) -> bool:
        """Copy a file."""
        shutil.copyfile(src_path, dst_path)
        return True

    def get_local_path(self, path: str, *_: Any, **__: Any) -> str:
        """Return the path."""
        return path

    def register_handler(self, *_: Any, **__: Any) -> None:
        """Take no handler."""


class PathManagerFactory:
    """Gives path managers."""

    @staticmethod
    def get(key: str = "default") -> PathManager:
        """Return one."""
        return g_pathmgr


g_pathmgr = PathManager()
