"""What a remedy would change in a file: the text after it, what was changed, and what could not be."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import msgspec

from preflight.errors import UsageError
from preflight.vocabulary.remedy import CallChange, Change, EnvironmentChange, Remedy, SettingChange

SHELL = (".sh", ".bash", ".sbatch", ".slurm", ".env", ".pbs", ".job")
SETTINGS = (".yaml", ".yml", ".json", ".toml")
_SHEBANG = re.compile(r"#!.*\b(?:ba|z|k|da)?sh\b")


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A change of one file.

    Attributes:
        remedy: Name of the remedy. path: The file. before, after: Its text.
        made: What is changed, a sentence each. left: What could not be, and why.
        missing: Of these, what the remedy needs there beside what is changed.
    """

    remedy: str
    path: str
    before: str
    after: str
    made: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    def diff(self) -> str:
        """The change as a patch."""
        return patch(self.path, self.before, self.after)


def patch(path: str, before: str, after: str) -> str:
    """Return the difference of two texts as a unified patch of a file."""
    import difflib

    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{path}", f"b/{path}"
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def propose(remedy: Remedy, path: str, text: str, given: Mapping[str, str], value: str | None = None) -> Proposal:
    """Return what a remedy would change in a file.

    Args:
        remedy: The remedy.
        path: The file, whose ending says what it is.
        text: What it holds.
        given: Variables of the file for the names in braces of a statement.
        value: What the first change that fits the file sets, in place of what the remedy says.

    Raises:
        UsageError: Nothing of the remedy can be changed automatically, or the file is of an unknown kind.
        InputError: The file cannot be parsed.
    """
    if not remedy.changes:
        raise UsageError(f"{remedy.id} is not a change of a file", remedy.instruction)
    kind = kind_of(path, text)
    made: list[tuple[type[Change], str]] = []
    left: list[tuple[type[Change], str]] = []
    after = text
    for change in remedy.changes:
        after, said, why = _changed(change, kind, path, after, given, value if not made else None)
        (made if said else left).append((type(change), said or why))
    # A remedy of a file's kind that was applied needs not be applied in the way of another kind of file, too.
    kinds = {one for one, _ in made}
    return Proposal(
        remedy=remedy.id, path=path, before=text, after=after, made=tuple(said for _, said in made),
        left=tuple(why for _, why in left), missing=tuple(why for one, why in left if not kinds or one in kinds),
    )  # fmt: skip


def kind_of(path: str, text: str) -> str:
    """Return what a file is: ``shell``, ``settings``, ``python``.

    Raises:
        UsageError: It is none of them.
    """
    ending = os.path.splitext(path)[1].lower()
    if ending == ".py":
        return "python"
    if ending in SETTINGS:
        return "settings"
    if ending in SHELL or _SHEBANG.match(text):
        return "shell"
    raise UsageError(
        f"{path}: it is not known how to change a file of this kind",
        "a shell script, a .yaml, .json or .toml configuration, or a .py file",
    )


def _changed(
    change: Change, kind: str, path: str, text: str, given: Mapping[str, str], value: str | None
) -> tuple[str, str | None, str]:
    """Return the text after one change, what was done, and else why nothing was."""
    if isinstance(change, EnvironmentChange):
        what = f"the variable {change.variable}"
        if kind == "shell":
            from preflight.investigate.applying.shell import set_variable

            return (*set_variable(change, text, value), f"{change.variable} is not set there")
        if kind == "python":
            from preflight.investigate.applying.python import set_environment

            return (*set_environment(change, path, text, value), f"{change.variable} is not set there")
        return text, None, f"{what} belongs into the script that launches the run"
    if isinstance(change, SettingChange):
        return (*_setting(change, kind, path, text, value), _absent(change))
    if kind != "python":
        return text, None, f"{', '.join(change.calls)}(...) is in Python files"
    from preflight.investigate.applying.python import add_statement, already, set_keyword

    if isinstance(change, CallChange):
        return (*set_keyword(change, path, text, value), f"no call of {' or '.join(change.calls)} is there to change")
    if lines := already(change, path, text):
        called = change.line.partition("(")[0].rpartition(".")[2]
        return text, None, f"{called} is called already, in line {', '.join(map(str, lines))}"
    return *add_statement(change, path, text, given), f"no call of {' or '.join(change.calls)} is there"


def _setting(change: SettingChange, kind: str, path: str, text: str, value: str | None) -> tuple[str, str | None]:
    if kind == "shell":
        from preflight.investigate.applying.shell import set_flag

        return set_flag(change, text, value)
    if kind == "python":
        from preflight.investigate.applying.python import set_number

        return set_number(change, path, text, value)
    from preflight.investigate.applying.settings import set_key

    return set_key(change, path, text, value)


def _absent(change: SettingChange) -> str:
    return f"none of {', '.join(change.names)} is there with a value that can be changed"


__all__ = ["Proposal", "kind_of", "patch", "propose"]
