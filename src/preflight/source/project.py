"""The project around a script: its root, its own modules, and nothing outside it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from preflight.errors import InputError
from preflight.source.script import Script, read_script

_ROOT_MARKS = (".git", ".hg", "pyproject.toml", "setup.py", "setup.cfg")
MAX_MODULES = 120

# Names that always mean the installed library, also where a repository of that library holds the script.
LIBRARIES = frozenset(
    "torch torchvision torchaudio torchtext transformers timm accelerate lightning pytorch_lightning deepspeed diffusers "
    "datasets tokenizers peft trl numpy scipy pandas sklearn tensorflow keras jax flax optax haiku apex apex_C "
    "bitsandbytes xformers flash_attn evaluate wandb tensorboard tensorboardX hydra omegaconf click typer fire tyro "
    "matplotlib PIL cv2 tqdm torchmetrics monai fairscale megatron colossalai composer sentencepiece einops ray "
    "torch_geometric dgl gym gymnasium absl yaml toml tomli json os sys math random copy functools itertools "
    "collections dataclasses typing argparse logging time datetime pathlib re enum abc contextlib types inspect warnings "
    "string glob shutil subprocess multiprocessing threading queue pickle tempfile io struct hashlib uuid ast csv "
    "operator statistics textwrap traceback importlib gc signal socket platform".split()
)
# Of these, the ones that repositories also call a package of their own: beside the script, Python takes that one.
_ALSO_LOCAL = frozenset("datasets tokenizers evaluate".split())


class Project:
    """Where a script's imports are looked up.

    Attributes:
        root: The repository's root; nothing above it is read.
        modules: What was read so far, by real path.
        catalog: Folders of the user's own catalog, in which models are looked up first.
    """

    def __init__(self, script: Script, root: Path | None = None) -> None:
        """Find the root above the script: the nearest folder with a mark of a repository, else the script's own."""
        self.script = script
        here = script.file.resolve().parent if script.file is not None else None
        self.here = here
        self.root = root.resolve() if root is not None else (find_root(here) if here is not None else None)
        self.modules: dict[str, Script | None] = {}
        self.notes: list[str] = []
        self.catalog: tuple[str, ...] = ()
        self._listing: dict[str, frozenset[str]] = {}

    def search_path(self) -> list[Path]:
        """The folders that imports are looked up in: the script's own, the root, and the root's ``src``."""
        if self.here is None or self.root is None:
            return []
        path = [self.here]
        for folder in (self.root, self.root / "src"):
            if folder not in path:
                path.append(folder)
        return path

    def find(self, name: str, importer: Script | None = None, level: int = 0) -> Path | None:
        """Find the file of a module of the project, or None when it is not of the project.

        Args:
            name: Dotted name as written.
            importer: The script that imports it, for relative imports.
            level: Number of leading dots.
        """
        parts = name.split(".") if name else []
        if level:
            if importer is None or importer.file is None:
                return None
            folder = importer.file.resolve().parent
            for _ in range(level - 1):
                folder = folder.parent
            return self._module_in(folder, parts)
        if not parts:
            return None
        if parts[0] in LIBRARIES:
            beside = self.here if parts[0] in _ALSO_LOCAL else None
            return self._module_in(beside, parts) if beside is not None else None
        bases = self.search_path()
        if importer is not None and importer.file is not None:
            parent = importer.file.parent
            if parent not in bases:
                bases.append(parent)
        for base in bases:
            found = self._module_in(base, parts)
            if found is not None:
                return found
        return self._module_in(self.root, parts[1:]) if self._is_root(parts[0]) and self.root is not None else None

    def _is_root(self, name: str) -> bool:
        """Whether a package is the root itself: a repository that is one package, whose scripts put its parent on the path."""
        return self.root is not None and self.root.name == name and "__init__.py" in self._names(self.root)

    def _names(self, folder: Path) -> frozenset[str]:
        key = str(folder)
        names = self._listing.get(key)
        if names is None:
            try:
                names = frozenset(os.listdir(key)) if self.inside(folder) else frozenset()
            except OSError:
                names = frozenset()
            self._listing[key] = names
        return names

    def _module_in(self, folder: Path, parts: list[str]) -> Path | None:
        if not parts:
            return folder / "__init__.py" if "__init__.py" in self._names(folder) else None
        for part in parts[:-1]:
            if part not in self._names(folder):
                return None
            folder = folder / part
        last, names = parts[-1], self._names(folder)
        if last in names and "__init__.py" in self._names(folder / last):
            return folder / last / "__init__.py"
        if last + ".py" in names:
            return folder / (last + ".py")
        return None

    def inside(self, path: Path) -> bool:
        """Whether a path, links followed, lies within the root."""
        if self.root is None:
            return False
        try:
            return path.resolve().is_relative_to(self.root)
        except (OSError, RuntimeError, ValueError):
            return False

    def load(self, path: Path) -> Script | None:
        """Read a module of the project; None when it cannot be read, lies outside, or too many were read."""
        key = str(path)
        if key not in self.modules:
            self.modules[key] = None
            if len(self.modules) > MAX_MODULES:
                if not any("modules" in note for note in self.notes):
                    self.notes.append(f"stopped following imports after {MAX_MODULES} modules")
            elif self.inside(path):
                try:
                    self.modules[key] = _parsed(path, self.shown(path))
                except InputError as error:
                    self.notes.append(f"not followed: {error}")
        return self.modules[key]

    def shown(self, path: Path) -> str:
        """The path as it is shown: in the terms of the script that was named."""
        if self.here is None:
            return str(path)
        folder = os.path.dirname(self.script.path)
        try:
            return os.path.normpath(os.path.join(folder, os.path.relpath(path.resolve(), self.here)))
        except (OSError, ValueError):
            return str(path)

    def read_data(self, name: str, importer: Script | None = None) -> tuple[bytes, str] | None:
        """Read a small data file (configuration) that the script names, if it exists within the project.

        Returns:
            The bytes and the path as shown, or None.
        """
        for path in self._places(name, importer):
            try:
                if path.is_file() and path.stat().st_size <= 2_000_000:
                    return path.read_bytes(), self.shown(path)
            except (OSError, ValueError, RuntimeError):
                continue
        return None

    def holds(self, name: str, importer: Script | None = None) -> str:
        """Say what a name that the script gives is within the project: ``file``, ``folder``, or empty for nothing."""
        for path in self._places(name, importer):
            try:
                if path.is_file() or path.is_dir():
                    return "file" if path.is_file() else "folder"
            except (OSError, ValueError, RuntimeError):
                continue
        return ""

    def _places(self, name: str, importer: Script | None) -> Iterator[Path]:
        bases = list(self.search_path())
        if importer is not None and importer.file is not None:
            bases.append(importer.file.parent)
        return (base / name for base in bases if self.inside(base / name))


KEPT_TEXT = 1_500_000
"""Characters of modules that are kept parsed: the next script of a folder mostly imports the same ones."""

_kept: dict[tuple[str, str], tuple[tuple[int, int], Script]] = {}


def _parsed(path: Path, shown: str) -> Script:
    """Read a module, or take it as it was read for another script, when the file is still the same.

    Raises:
        InputError: It cannot be read or is not Python 3.
    """
    key = (str(path), shown)
    try:
        state = path.stat()
    except OSError:
        return read_script(path, shown)
    version = (state.st_mtime_ns, state.st_size)
    before = _kept.pop(key, None)
    script = before[1] if before is not None and before[0] == version else read_script(path, shown)
    _kept[key] = (version, script)
    room = KEPT_TEXT - sum(len(kept.text) for _, kept in _kept.values())
    while room < 0 and len(_kept) > 1:
        room += len(_kept.pop(next(iter(_kept)))[1].text)
    return script


def find_root(folder: Path) -> Path:
    """The nearest folder, upwards, that looks like the root of a repository.

    Where none does, it is the current directory when the folder lies below it, as ``python -m`` takes it, else the folder.
    """
    marked = _marked(folder)
    if marked is not None:
        return marked
    here = _current_directory()
    return here if here is not None and folder.is_relative_to(here) else folder


@lru_cache(maxsize=64)
def _marked(folder: Path) -> Path | None:
    current = folder
    for _ in range(40):
        if any((current / mark).exists() for mark in _ROOT_MARKS):
            return current
        if current.parent == current or current == Path.home():
            break
        current = current.parent
    return None


def _current_directory() -> Path | None:
    """The current directory; None where it is gone, or a place that holds anything: the home folder, the root of the disk."""
    try:
        here = Path.cwd()
    except OSError:
        return None
    return here if len(here.parts) > 2 and here != Path.home() else None
