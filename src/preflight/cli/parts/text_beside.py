"""What ``check`` says of a program's text, read at the lowest priority while the program starts to run."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from preflight.cli.parts.live import remark
from preflight.cli.parts.run_folder import VARIABLE
from preflight.errors import PreflightError
from preflight.source.launcher import parse_launch
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.report import Report

_LOWEST = 19
_PATIENCE = 20.0
"""Seconds that a program that has ended waits for its text to be read."""
_WAITS = 30.0
"""Seconds of a run in which only what it shows itself is told."""


class TextBeside:
    """The errors in a program's text that make its training wrong, told where the run itself shows none.

    They come from ``preflight check`` in a process of its own, so that nothing that becomes of it touches the run.
    What the run shows comes first, in alarms; so the text waits a while, in a short run until its end.
    """

    def __init__(self, command: Sequence[str]) -> None:
        """Begin to read the script that a command starts; nothing is read where none is named."""
        self.findings: tuple[Finding, ...] = ()
        self._begun = time.monotonic()
        self._process: subprocess.Popen[bytes] | None = None
        line = shlex.join(command)
        try:
            self._script = parse_launch(line).script
        except PreflightError:
            self._script = None
        if self._script is None or not os.path.isfile(self._script):
            return
        self._folder = tempfile.TemporaryDirectory(prefix="preflight-")
        self._answer = Path(self._folder.name, "check.json")
        words = ["check", self._script, "--launch", line, "--format", "json", "-o", str(self._answer), "--quiet"]
        with suppress(OSError):
            self._process = subprocess.Popen(
                [sys.executable, "-m", "preflight", *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=os.environ | {VARIABLE: self._folder.name},  # its report is part of the one of this run
                start_new_session=True,  # what is sent to the program from the keyboard is not meant for it
            )
            os.setpriority(os.PRIO_PROCESS, self._process.pid, _LOWEST)

    def look(self, alarmed: bool) -> None:
        """Tell of the errors, once they are known and it is time; ``alarmed`` is whether the run has shown one itself."""
        if time.monotonic() - self._begun > _WAITS:
            self._tell(alarmed)

    def close(self, alarmed: bool) -> None:
        """Tell of the errors at the end of the run, after waiting for them, though not for long."""
        with suppress(subprocess.TimeoutExpired):
            if self._process is not None:
                self._process.wait(_PATIENCE)
                self._tell(alarmed)
        self.drop()

    def _tell(self, alarmed: bool) -> None:
        if self._process is None or self._process.poll() is None:
            return
        self._process = None
        with suppress(OSError, msgspec.MsgspecError):
            report = msgspec.json.decode(self._answer.read_bytes(), type=Report)
            self.findings = () if alarmed else tuple(map(_weighed, filter(_told, report.findings)))
        self._folder.cleanup()
        for finding in self.findings:
            at = finding.location
            remark(f"in the text, {at.path}:{at.line}: {finding.message} ({finding.rule})")
        if self.findings:
            remark(f"preflight check {shlex.quote(str(self._script))} says more, and what to change")

    def added_to(self, report: Report) -> Report:
        """The report of the run with what the text shows; what is certain there is no GO, whatever was seen of it."""
        verdict = "NO-GO" if any(map(_decides, self.findings)) else report.verdict
        return msgspec.structs.replace(report, findings=(*report.findings, *self.findings), verdict=verdict)

    def drop(self) -> None:
        """Read no further."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            self._folder.cleanup()


def _told(finding: Finding) -> bool:
    """Whether a finding is told beside a run: one that decides, or a likely one of a rule that is meant for it."""
    if finding.severity != "warning" or finding.confidence == "possible":
        return finding.decides
    from preflight.check.registry import load_rules

    return any(loaded.rule.beside for loaded in load_rules() if loaded.rule.name == finding.rule)


def _decides(finding: Finding) -> bool:
    return finding.decides


def _weighed(finding: Finding) -> Finding:
    """An error that is only likely is a warning beside a run that shows none."""
    return finding if finding.confidence == "certain" else msgspec.structs.replace(finding, severity="warning")
