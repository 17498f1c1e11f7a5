"""Programs and their settings that lie beside logs: they speak of failures that they handle, and none of it happened."""

from __future__ import annotations

from preflight.source.dumps.part import Part
from preflight.vocabulary.log import LogFile

KIND = "program"

_PROGRAMS = (
    ".py", ".pyi", ".pyx", ".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".rs", ".go", ".js", ".ts", ".java", ".jl", ".lua",
    ".j2", ".diff", ".patch",
)  # fmt: skip
_SCRIPTS = (".sh", ".bash", ".zsh", ".sbatch", ".slurm", ".pbs", ".lsf")
_SETTINGS = (".yaml", ".yml", ".toml", ".ini", ".cfg", ".gin")
_OF_KUBERNETES = (b"apiVersion:", b"kind: Event", b"kind: Pod")
"""What is no setting but what a cluster says: it is read as text."""


def looks_like(name: str, head: bytes) -> bool:
    """Tell by the ending; a job script by its first line as well, as logs of schedulers may bear its name."""
    lower = name.lower()
    if lower.endswith(_SCRIPTS):
        return head.startswith(b"#!")
    if lower.endswith(_SETTINGS):
        return not any(word in head for word in _OF_KUBERNETES)
    return lower.endswith(_PROGRAMS)


def read(content: bytes, file: LogFile) -> Part:
    """Take nothing from it."""
    return Part(lines=content.count(b"\n"))
