"""Commits between one that works and one that fails, each checked out in a work tree of its own."""

from __future__ import annotations

import os
import subprocess

from preflight.errors import UsageError


def commits_between(works: str, fails: str, folder: str = ".") -> list[str]:
    """Return the commits from one that works to one that fails, along first parents, oldest first.

    Raises:
        UsageError: They are not commits, or the one that works is no ancestor of the other.
    """
    if _git(folder, "rev-parse", "--git-dir") is None:
        raise UsageError(f"{os.path.abspath(folder)} is in no git repository", "call it from within one")
    good, bad = (_git(folder, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}") for name in (works, fails))
    for name, found in ((works, good), (fails, bad)):
        if found is None:
            raise UsageError(f"{name!r} is not a commit here")
    listed = _git(folder, "rev-list", "--first-parent", "--reverse", f"{good}..{bad}") or ""
    chain = listed.split()
    merged = _git(folder, "merge-base", "--is-ancestor", str(good), str(bad))
    if merged is None or not chain:
        raise UsageError(f"{works} is not an ancestor of {fails}", "the commit that works comes first")
    return [str(good), *chain]


def check_out(commit: str, tree: str, folder: str = ".") -> None:
    """Put a commit into a work tree of its own; the person's own files are not touched.

    Raises:
        UsageError: git refuses.
    """
    if os.path.exists(os.path.join(tree, ".git")):
        done = _git(tree, "checkout", "--quiet", "--force", "--detach", commit)
        if done is not None:
            _git(tree, "clean", "--quiet", "-fdx")
            return
    if _git(folder, "worktree", "add", "--quiet", "--force", "--detach", os.path.abspath(tree), commit) is None:
        raise UsageError(f"{commit} cannot be checked out into {tree}", "git worktree list shows what is in the way")


def remove_tree(tree: str, folder: str = ".") -> None:
    """Take the work tree away again."""
    _git(folder, "worktree", "remove", "--force", os.path.abspath(tree))


def title(commit: str, folder: str = ".") -> str:
    """Return a commit in one line."""
    return _git(folder, "log", "-1", "--format=%h %s", commit) or commit


def _git(folder: str, *words: str) -> str | None:
    """Return what git says, or None where it fails."""
    try:
        done = subprocess.run(
            ["git", "-C", folder, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
        )
    except FileNotFoundError:
        raise UsageError("there is no git", "is it on the PATH?") from None
    return done.stdout.strip() if done.returncode == 0 else None


__all__ = ["check_out", "commits_between", "remove_tree", "title"]
