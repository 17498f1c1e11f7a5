"""The check for programs: the same report that the command line shows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from preflight.check.asked import Options
from preflight.check.examine import examine_named
from preflight.check.files.discover import discover
from preflight.check.many import check_many, combine
from preflight.check.selection import Selection
from preflight.vocabulary.finding import Persona
from preflight.vocabulary.report import Report


def analyze(
    path: str | os.PathLike[str],
    *,
    gpu: str | None = None,
    gpu_memory: float | None = None,
    gpus: int | None = None,
    launch: str | None = None,
    arguments: Sequence[str] | None = None,
    persona: Persona = "regular",
) -> Report:
    """Check a training script, a notebook, or all scripts of a folder, without running them.

    Args:
        path: The script, notebook or folder.
        gpu: The GPU it is meant for, in any spelling: ``"H100"``.
        gpu_memory: The size of the GPU's memory as it is sold, GB.
        gpus: Number of GPUs of the run.
        launch: How it is started: ``"torchrun --nproc_per_node 8 train.py"``.
        arguments: The script's own command line.
        persona: Who reads: ``"regular"``, ``"pedantic"`` or ``"audit"``.

    Returns:
        The report: ``verdict``, ``findings``, ``critical_errors``, ``memory``, ``breakdown``, ``facts`` ...

    Raises:
        InputError: The file cannot be read or is not Python 3.
        UsageError: An option is wrong.
    """
    options = Options(
        gpu=gpu,
        gpu_memory=gpu_memory,
        gpus=gpus,
        launch=launch,
        arguments=tuple(arguments) if arguments is not None else None,
    )
    selection = Selection(persona=persona)
    if Path(path).is_dir():
        several = check_many(discover([os.fspath(path)]), options, selection, jobs=1)
        return combine(several.reports, [os.fspath(path)], {}, several.notes)
    return examine_named(os.fspath(path), options, selection)


class TrainingPreflightAnalyzer:
    """A check with settings that are kept for several scripts."""

    def __init__(
        self,
        gpu_memory_gb: float | None = None,
        gpu: str | None = None,
        gpus: int | None = None,
        persona: Persona = "regular",
    ) -> None:
        """Keep the settings.

        Args:
            gpu_memory_gb: The size of the GPU's memory as it is sold, GB.
            gpu: The GPU, in any spelling.
            gpus: Number of GPUs of the run.
            persona: Who reads.
        """
        self.gpu_memory_gb = gpu_memory_gb
        self.gpu = gpu
        self.gpus = gpus
        self.persona: Persona = persona

    def analyze(self, path: str | os.PathLike[str]) -> Report:
        """Check a script; see ``analyze``."""
        return analyze(path, gpu=self.gpu, gpu_memory=self.gpu_memory_gb, gpus=self.gpus, persona=self.persona)
