"""Reads how a program ended out of the line that whatever ran it prints behind its output.

A shell's ``time``, a recipe of make, an IDE, a step of continuous integration, a batch system, a service manager, a tracker: each
waits for the program, and its line may be all that tells that it failed.
"""

from __future__ import annotations

import re

WRAPPER = "wrapper"
"""What such a line is told by."""
LITERALS = (
    b"exited with",
    b"ompleted with exit",
    b"inished with exit",
    b"erminated with exit",
    b"erminated by signal",
    b"failed on line",
    b"Job failed:",
    b"failed with return code list",
    b"*** [",
    b"Exit status:",
    b"exit_status",
    b"ormal termination (",
    b"Main process exited, code=",
    b"; not expected)",
    b"W&B process to finish",
    b"(exit code ",
    b" FAILED ",
    b"Exited with exit code",
    b"Exited by signal",
    b"\n^C",
    b"]^C",
    b"xit code",
    b"xit status",
    b"xit Status:",
    b"eturn code",
    b"Successfully completed.",
    b"Job succeeded",
    b"got exitcode: ",
)
"""A line that tells of such an end holds one of these."""

_CODE = r"(?:code|status)(?: of)?:? (?P<code>-?\d{1,10})\b"
_SAID = (
    rf"(?:exited with (?:an? )?(?:non-?zero )?(?:exit |return |error )?{_CODE}"
    rf"|(?:completed|finished|terminated) with (?:an? )?(?:non-?zero )?(?:exit|return) {_CODE.replace('code>', 'told>')})"
)
"""Of a service, what completed with a status was answered with it."""
_SUCCEEDED = re.compile(r"^(?:Successfully completed\.|(?:\S{1,40} )?Job succeeded)\s*$")
"""How LSF and GitLab tell that a script ended with 0."""
_TRACKED_BY_ITS_SERVICE = re.compile(
    r"\[(?:sender\.py:send_exit|wandb_run\.py:_atexit_cleanup)\(\):\d{1,6}\] (?:handling exit code|got exitcode): (?P<code>\d{1,3})\s*$"
)
"""How the tracker W&B tells in its own logs how the program ended that it went with."""
_WORD = r"(?P<word>Killed|Terminated|Segmentation fault|Aborted|Bus error|Illegal instruction|Floating point exception)"
_FORMS = tuple(
    re.compile(form)
    for form in (
        # "Process completed with exit code 1.", "command terminated with exit code 137", "The replica NAME exited with ..."
        rf"(?:^|[\s\]])(?:[Pp]rocess|[Cc]ommand|[Jj]ob|[Tt]ask|[Pp]rogram|[Cc]ontainer|[Rr]eplica|[Ss]cript)\b(?: [\w./-]{{1,80}}){{0,2}} {_SAID}",
        r"^(?:error: )?Recipe `[^`]{1,80}` failed on line \d+ with exit code (?P<code>\d{1,10})",
        r"\bJob failed: (?:exit (?:code|status) |command terminated with exit code )(?P<code>\d{1,10})",
        r"\bfailed with return code list: \[(?:0, )*(?P<code>-?\d{1,10})\b",
        r"\bfailed to run: .{1,400}, exited with (?P<code>-?\d{1,10})\s*$",
        # With a capital letter it is a line of mpirun's, whose process is named in the one above or below.
        r"^\s*(?:exit(?:ed)?(?: with)? (?:code|status)|[Rr]eturn code)(?:\s*[:=]\s*|\s+)(?P<code>-?\d{1,10})\s*$",
        r"\bfailed with return code:? (?P<code>-?\d{1,10})\W*$",
        # Recipes of make: an error of one that is ignored ends nothing.
        rf"^g?make(?:\[\d+\])?: \*\*\* \[[^\]]{{1,400}}\] (?:Error (?P<code>\d{{1,10}})|{_WORD})(?: \(core dumped\))?\s*$",
        # Travis CI, of a command and of all of them.
        r"^(?:Done\. Your build|The command \".{1,400}\") exited with (?P<code>\d{1,10})\.\s*$",
        # GNU time.
        r"^Command exited with non-zero status (?P<code>\d{1,10})\s*$",
        r"^Command terminated by signal (?P<signal>\d{1,3})\s*$",
        r"^\s*Exit [Ss]tatus: (?P<code>\d{1,10})\s*$",
        # Batch systems: LSF, Grid Engine, HTCondor, what sites print of a job of Slurm.
        r"^Exited with exit code (?P<code>\d{1,10})\.\s*$",
        r"^Exited by signal (?P<signal>\d{1,3})\.\s*$",
        r"^exit_status\s+(?P<code>\d{1,10})\b",
        r"\((?:0|1)\) (?:Normal termination \(return value (?P<code>-?\d{1,10})\)|Abnormal termination \(signal (?P<signal>\d{1,3})\))",
        r"^\s*State\s*: (?:COMPLETED|FAILED) \(exit code (?P<code>\d{1,10})\)\s*$",
        r"^\s*\d[\w.+\[\]-]{0,40}\s.{0,200}\sFAILED\s+(?P<code>\d{1,10}):(?P<signal>\d{1,3})\s*$",
        # What looks after services.
        r"\bMain process exited, code=(?:exited, status=(?P<code>\d{1,10})/|(?:killed|dumped), status=(?P<signal>\d{1,3})/)",
        r"\bexited: \S+ \((?:exit status (?P<code>\d{1,10})|terminated by SIG(?P<name>[A-Z]+)\b.{0,20}); not expected\)",
    )
)  # fmt: skip
_TRACKED = re.compile(r"Waiting for W&B process to finish(?:, PID \d+)?\.\.\. \((?:failed (?P<code>\d{1,3})|success)\)")
_TYPED = re.compile(r"^(?:.*(?:it/s|s/it|B/s)[^\]]{0,40}\])?(?:\^C)+\s*$")
"""How a terminal shows that somebody pressed Control-C, alone or behind a bar."""
_INTERRUPTED = 255
"""What the tracker W&B tells of a program that a person interrupted."""


def told(text: str) -> tuple[int | None, str | None, int | None] | None:
    """Return what a wrapper tells of an end: an exit status, the name or word of a signal, its number; None where no line of one is.

    A scheduler that tells both tells the signal where there was one.
    """
    tracked = _TRACKED.search(text) or _TRACKED_BY_ITS_SERVICE.search(text)
    if tracked is not None:
        status = int(tracked["code"] or 0)
        return (None, None, 2) if status == _INTERRUPTED else (status, None, None)
    if _TYPED.match(text):
        return None, None, 2
    if _SUCCEEDED.match(text):
        return 0, None, None
    for form in _FORMS:
        found = form.search(text)
        if found is None:
            continue
        given = found.groupdict()
        signal = int(given.get("signal") or 0)
        if signal:
            return None, None, signal
        name = given.get("word") or given.get("name")
        if name:
            return None, name, None
        code = given.get("told") or given.get("code")
        if code is not None:
            return int(code), None, None
    return None
