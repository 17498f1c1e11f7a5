"""Links, lengths, times, rights and the folder of work, while a script runs over a scratch folder."""

from __future__ import annotations

import os
from typing import Any

from preflight.dryrun.virtual.guard.overlay import Overlay, copyfile, exists, really


def install(overlay: Overlay) -> None:
    """Links, lengths, times and rights: changed in the scratch folder, and left alone elsewhere."""
    symlink, link, truncate, chdir = os.symlink, os.link, os.truncate, os.chdir

    def linked(source: Any, target: Any, *args: Any, **kwargs: Any) -> None:
        whole = os.path.abspath(
            os.path.join(os.path.dirname(os.path.abspath(os.fsdecode(target))), os.fsdecode(source))
        )
        if exists(overlay.reading(target)):
            raise FileExistsError(17, "File exists", target)
        held = overlay.reading(whole)
        if overlay.mine(held) and exists(held):
            symlink(held, overlay.writing(target))
        elif os.path.isfile(held):
            # A link out of the scratch folder could be written through.
            copyfile(held, overlay.writing(target))
        else:
            overlay.refused[f"os.symlink {os.fsdecode(source)!r}"] += 1

    def hard_linked(source: Any, target: Any, **kwargs: Any) -> None:
        held = overlay.reading(source)
        if overlay.mine(held):
            return link(held, overlay.writing(target), **kwargs)
        return copyfile(held, overlay.writing(target))

    def shortened(path: Any, length: int) -> None:
        truncate(overlay.writing(path, keep=True), length)

    def entered(path: Any) -> None:
        new = not overlay.mine(path) and not really(os.path.abspath(os.fsdecode(path)))
        chdir(overlay.reading(path) if new else path)

    def kept(plain: Any) -> Any:
        def marked(path: Any, *args: Any, **kwargs: Any) -> None:
            held = overlay.reading(path)
            if isinstance(path, int) or kwargs.get("dir_fd") is not None:
                if overlay.holds(path, -1 if isinstance(path, int) else kwargs["dir_fd"]):
                    plain(path, *args, **kwargs)
            elif overlay.mine(held):
                plain(held, *args, **kwargs)
            elif not exists(held):
                raise FileNotFoundError(2, "No such file or directory", path)

        return marked

    def piped(plain: Any) -> Any:
        return lambda path, *args, **kwargs: plain(overlay.writing(path), *args, **{**kwargs, "dir_fd": None})

    os.symlink, os.link, os.truncate, os.chdir = linked, hard_linked, shortened, entered  # type: ignore[assignment]
    for name in (
        "chmod",
        "fchmod",
        "lchmod",
        "utime",
        "chown",
        "fchown",
        "lchown",
        "setxattr",
        "removexattr",
        "chflags",
    ):
        if hasattr(os, name):
            setattr(os, name, kept(getattr(os, name)))
    for name in ("mkfifo", "mknod"):  # of these the audit hook hears nothing
        if hasattr(os, name):
            setattr(os, name, piped(getattr(os, name)))
