"""From what a person names (files, folders, globs) to the files to check."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import cache

import msgspec

from preflight.errors import InputError

STDIN = "-"
ENDINGS = (".py", ".ipynb", ".pyw")
SKIPPED = frozenset(
    {
        "__pycache__",
        "build",
        "dist",
        "env",
        "node_modules",
        "site-packages",
        "venv",
        "virtualenv",
        "wandb",
        "_build",
        "buck-out",
    }
)
"""Folders that hold what was made or installed, not what somebody wrote here. Hidden folders are skipped as well."""

LIBRARIES = (
    "torch|torchvision|torchaudio|torchtune|torchtitan|lightning|pytorch_lightning|lightning_fabric|transformers|accelerate|"
    "deepspeed|timm|diffusers|peft|trl|fastai|ignite|composer|colossalai|megatron|fairscale|fairseq|detectron2|mmengine|monai|"
    "sentence_transformers|ultralytics|unsloth|apex|bitsandbytes|tensorflow|tf_keras|keras|jax|flax|optax|haiku|paddle|mxnet"
)


class Found(msgspec.Struct, frozen=True):
    """A file to check.

    Attributes:
        path: As it is shown.
        named: Whether the person named this very file, rather than a folder or a pattern that it is in.
    """

    path: str
    named: bool


def mentions_training(data: bytes) -> bool:
    """Whether a file imports a library that trains; nothing is parsed, and few lines come as far as the pattern."""
    search = _import_pattern().search
    return any((b"import" in line or b"from" in line) and search(line) for line in data.split(b"\n"))


@cache
def _import_pattern() -> re.Pattern[bytes]:
    """An import of one of the libraries; compiled only where folders are searched."""
    return re.compile(
        rb"(?:^|[\n\r;:])[ \t\f]*(?:import|from)[ \t]+(?:[\w., \t]*[, \t])?(?:" + LIBRARIES.encode() + rb")\b"
        rb'|"(?:\s|\\t)*(?:import|from)[ \t]+(?:' + LIBRARIES.encode() + rb")\b"  # a line of a notebook
    )


def discover(paths: Sequence[str], exclude: Sequence[str] = (), base: str | None = None) -> list[Found]:
    """Find the files to check, each once, in the order in which they were named; in a folder, by name.

    Args:
        paths: Files, folders, patterns, or ``-`` for standard input.
        exclude: Patterns of files and folders that folders are searched without.
        base: The folder that ``exclude`` is relative to; the current one without it.

    Raises:
        InputError: Something that was named is not there, or a folder has no Python in it.
    """
    found: dict[str, Found] = {}
    for path in paths:
        if path == STDIN:
            found.setdefault(path, Found(path, True))
        elif os.path.isdir(path):
            _add_folder(path, found, exclude, base)
        elif os.path.exists(path) or not _is_pattern(path):
            found[_key(path)] = Found(path, True)
        else:
            _add_pattern(path, found, exclude, base)
    return list(found.values())


def _key(path: str) -> str:
    return os.path.normcase(os.path.normpath(path))


def _is_pattern(path: str) -> bool:
    return any(char in path for char in "*?[")


def _add_folder(path: str, found: dict[str, Found], exclude: Sequence[str], base: str | None) -> None:
    files = list(walk(path, exclude, base))
    if not files:
        why = (
            "every Python file in it is excluded"
            if exclude and any(walk(path))
            else "there is no Python file or notebook in it"
        )
        raise InputError(f"{path}: {why}", "name a training script, or a folder that holds one")
    for file in files:
        found.setdefault(_key(file), Found(file, False))


def _add_pattern(pattern: str, found: dict[str, Found], exclude: Sequence[str], base: str | None) -> None:
    from glob import glob

    matches = sorted(match for match in glob(pattern, recursive=True))
    files = [m for m in matches if m.endswith(ENDINGS) and os.path.isfile(m) and not excluded(m, exclude, base)]
    if not files:
        what = "matches no Python file or notebook" if matches else "no such file, and as a pattern it matches nothing"
        raise InputError(f"{pattern}: {what}", "** matches any number of folders")
    for file in files:
        found.setdefault(_key(file), Found(file, False))


def walk(folder: str, exclude: Sequence[str] = (), base: str | None = None) -> Iterator[str]:
    """Yield the Python files and notebooks below a folder, by name; links to folders are not followed.

    Hidden folders, virtual environments and folders of things that were built or installed are left out.
    """
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError as error:
        raise InputError(f"{folder}: cannot be read: {error.strerror or error}") from None
    for entry in entries:
        path = entry.path[2:] if entry.path.startswith("./") else entry.path
        if entry.name.startswith(".") or (exclude and excluded(path, exclude, base)):
            continue
        if entry.is_dir(follow_symlinks=False):
            if (
                entry.name in SKIPPED
                or entry.name.endswith(".egg-info")
                or os.path.exists(os.path.join(path, "pyvenv.cfg"))
            ):
                continue
            try:
                yield from walk(path, exclude, base)
            except InputError:
                continue  # a folder in it that may not be entered
        elif entry.name.endswith(ENDINGS) and entry.is_file():
            yield path


def excluded(path: str, patterns: Sequence[str], base: str | None = None) -> bool:
    """Whether a pattern matches a path, relative to ``base``: the whole of it, a folder above it, or its name."""
    if not patterns:
        return False
    from fnmatch import fnmatch

    relative = relative_to(path, base)
    parts = relative.split("/")
    prefixes = ["/".join(parts[: i + 1]) for i in range(len(parts))]
    for pattern in patterns:
        wanted = pattern.replace("\\", "/").removeprefix("./").rstrip("/")
        candidates = prefixes if "/" in wanted else [*parts, *prefixes]
        if any(fnmatch(candidate, wanted) for candidate in candidates):
            return True
        if wanted.startswith("**/") and any(fnmatch(candidate, wanted[3:]) for candidate in prefixes):
            return True
    return False


def relative_to(path: str, base: str | None) -> str:
    """A path as seen from a folder, with forward slashes."""
    try:
        shown = os.path.relpath(path, base) if base is not None else os.path.normpath(path)
    except ValueError:  # another drive
        shown = path
    return shown.replace(os.sep, "/")
