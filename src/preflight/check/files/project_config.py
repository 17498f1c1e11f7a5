"""``[tool.preflight]`` in ``pyproject.toml``: what a project says once for all its scripts."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import msgspec

from preflight.errors import UsageError, nearest
from preflight.vocabulary.finding import Persona

FILE = "pyproject.toml"


class ProjectConfig(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """The table ``[tool.preflight]``. What is absent is None or empty, and the command's default holds.

    Attributes:
        gpu: The GPU that scripts are checked for.
        gpu_memory: The size of its memory as it is sold, in GB.
        gpus: Number of GPUs.
        select: Rules to show, all others hidden.
        ignore: Rules to hide.
        persona: ``regular``, ``pedantic`` or ``audit``.
        fail_on: ``error`` or ``warning``.
        exclude: Patterns of files and folders that are not searched.
        baseline: The baseline file.
        per_file_ignores: Rules to hide by pattern of the path.
        catalog: Folders with further GPUs and models.
    """

    gpu: str | None = None
    gpu_memory: float | None = None
    gpus: Annotated[int, msgspec.Meta(ge=1)] | None = None
    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    persona: Persona | None = None
    fail_on: str | None = None
    exclude: tuple[str, ...] = ()
    baseline: str | None = None
    per_file_ignores: dict[str, tuple[str, ...]] = {}
    catalog: tuple[str, ...] = ()


class Project(msgspec.Struct, frozen=True):
    """The configuration, and the folder that its paths are relative to (None: there is none)."""

    config: ProjectConfig
    folder: str | None = None
    path: str | None = None

    def resolve(self, path: str) -> str:
        """A path of the configuration as it is reached from here."""
        if self.folder is None or os.path.isabs(path):
            return path
        return os.path.normpath(os.path.join(self.folder, path))

    def catalog(self) -> tuple[str, ...]:
        """The folders of the user's own catalog, as whole paths: what is read there is kept under them.

        Raises:
            UsageError: One of them is not there.
        """
        folders = tuple(self.resolve(folder) for folder in self.config.catalog)
        for folder in folders:
            if not os.path.isdir(folder):
                raise UsageError(f"{self.path}: catalog names the folder {folder}, which is not there")
        return tuple(map(os.path.abspath, folders))


def load_project(first: str) -> Project:
    """Find and read the configuration for what was named first.

    It is in the nearest ``pyproject.toml``, upwards, that has the table; the search ends where the repository does.

    Raises:
        UsageError: The file cannot be read or is not TOML, or the table has an unknown key or a wrong value.
    """
    folder = os.path.abspath(first if os.path.isdir(first) else os.path.dirname(first) or ".")
    while True:
        found = _read(os.path.join(folder, FILE))
        if found is not None:
            shown = os.path.relpath(folder) if folder.startswith(os.getcwd()) else folder
            return Project(found, shown, os.path.normpath(os.path.join(shown, FILE)))
        above = os.path.dirname(folder)
        if above == folder or os.path.exists(os.path.join(folder, ".git")):
            return Project(ProjectConfig())
        folder = above


def _read(path: str) -> ProjectConfig | None:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UsageError(f"{os.path.relpath(path)}: cannot be read: {error.strerror or error}") from None
    if b"preflight" not in data:
        return None
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        tool = tomllib.loads(data.decode("utf-8")).get("tool")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{os.path.relpath(path)}: not TOML: {error}") from None
    table = tool.get("preflight") if isinstance(tool, dict) else None
    if table is None:
        return None
    if not isinstance(table, dict):
        raise UsageError(f"{os.path.relpath(path)}: tool.preflight is not a table", "it begins with [tool.preflight]")
    return convert(table, os.path.relpath(path))


def convert(table: dict[str, Any], path: str) -> ProjectConfig:
    """Turn the table into a value, strictly.

    Raises:
        UsageError: A key is unknown (the hint names the nearest), or a value is of the wrong kind.
    """
    known = ProjectConfig.__struct_encode_fields__
    for key in table:
        if key not in known:
            near = nearest(key.replace("_", "-"), known)
            hint = f"did you mean {near}?" if near else f"known: {', '.join(known)}"
            raise UsageError(f"{path}: [tool.preflight] has the unknown key {key!r}", hint)
    try:
        config = msgspec.convert(table, type=ProjectConfig)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: [tool.preflight] {_in_words(str(error))}", _choices(str(error))) from None
    if config.fail_on not in (None, "error", "warning"):
        raise UsageError(f"{path}: [tool.preflight] fail-on is {config.fail_on!r}", "error or warning")
    return config


def _in_words(said: str) -> str:
    """What is wrong with a value, the key first: ``gpu: expected text, got a number``."""
    import re

    what, _, key = said.replace("`", "").replace(" | null", "").partition(" - at $.")
    kinds = {"str": "text", "int": "a whole number", "float": "a number", "bool": "true or false",
             "array": "a list", "object": "a table"}  # fmt: skip
    what = re.sub(r"(?<!')\b(str|int|float|bool|array|object)\b(?!')", lambda found: kinds[found[0]], what)
    return f"{key}: {what[:1].lower()}{what[1:]}" if key else what


def _choices(said: str) -> str | None:
    from typing import get_args

    return f"one of {', '.join(get_args(Persona))}" if "persona" in said else None
