"""How a dry run came to its end, where it did before the script's own."""

from __future__ import annotations

from pathlib import Path

from preflight.vocabulary.profile import Profile


def in_short(message: str) -> str:
    """Return the first line of a message that says something, cut to a readable length."""
    line = next((line for line in message.splitlines() if line.strip()), "")
    return line.strip()[:240]


def early_end(profile: Profile) -> str | None:
    """What ended the run before enough was seen; None where nothing did."""
    if profile.outcome == "failed":
        last = profile.frames[-1] if profile.frames else None
        at = f" at {Path(last.file).name}:{last.line}" if last is not None else ""
        return f"the script ended in the dry run with {profile.error}{at}: {in_short(profile.message or '')}"
    if profile.outcome == "no data":
        return (
            f"the loader at {Path(profile.stuck).name} gave no batch, again and again: its data set found nothing to read; "
            "run it where the data is, or name the data behind --"
        )
    if profile.outcome == "time is up":
        at = f" at {profile.stuck}, where the script took no notice" if profile.stuck else ""
        return f"the time limit ended the dry run{at}; --time-limit gives it longer"
    if profile.outcome == "memory is up":
        return "the dry run took most of the memory that this machine had left, and was ended"
    if profile.outcome == "exited" and not profile.stuck and profile.steps == 0:
        return _left(profile.status)
    return None


def _left(status: str) -> str | None:
    """Why a script left before its first step: its status, or the text that it left with."""
    if status in ("", "0", "None"):
        return None
    if status == "2":
        return (
            "the script left with status 2, as it does where its command line lacks arguments; they are given behind --"
        )
    return (
        f"the script left with status {status}"
        if status.lstrip("-").isdigit()
        else f"the script left: {in_short(status)}"
    )


def why_unknown(profile: Profile) -> str:
    """Why a run in which nothing was put on the GPU says nothing of its memory."""
    end = early_end(profile)
    if end is None:
        return "nothing was put on the GPU in the dry run"
    return f"{end} ({profile.hint})" if profile.hint else end
