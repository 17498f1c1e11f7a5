"""Remedies: what can be changed against a cause, under which conditions, at what price, and how to take it back."""

from __future__ import annotations

from typing import Literal

import msgspec

from preflight.vocabulary.signature import Category

Danger = Literal["none", "low", "medium", "high"]
RemedyKind = Literal["immediate", "structural"]


class EnvironmentChange(msgspec.Struct, frozen=True, tag_field="into", tag="environment", forbid_unknown_fields=True):
    """Set a variable in the script that launches the run, or take it out (``value`` absent)."""

    variable: str
    value: str | None = None


class SettingChange(msgspec.Struct, frozen=True, tag_field="into", tag="setting", forbid_unknown_fields=True):
    """Change a key of a YAML, JSON or TOML configuration, or a ``--flag`` of a command line in a shell script.

    Attributes:
        names: What the key is called in one framework or another; the first that is there is changed.
        value: What it becomes; in TOML notation.
        factor: Or: what its number is multiplied by (whole numbers stay whole, never below 1).
        add: Dotted key under which it is added where none of the names is there; without it, nothing is added.
    """

    names: tuple[str, ...]
    value: bool | int | float | str | None = None
    factor: float | None = None
    add: str | None = None


class CallChange(msgspec.Struct, frozen=True, tag_field="into", tag="call", forbid_unknown_fields=True):
    """Give a keyword of a call in a Python file another value, or add the keyword.

    Attributes:
        calls: Last part of the name of the function: ``DataLoader``.
        keyword: The keyword.
        value: Python source.
        imports: Lines that have to stand among the imports.
        only_if: Keywords that the call must have already; without them it is left alone.
    """

    calls: tuple[str, ...]
    keyword: str
    value: str
    imports: tuple[str, ...] = ()
    only_if: tuple[str, ...] = ()


class StatementChange(msgspec.Struct, frozen=True, tag_field="into", tag="statement", forbid_unknown_fields=True):
    """Put a line of Python before or behind the statement that makes a call.

    Attributes:
        calls: Last part of the name of the function or method: ``backward``.
        where: On which side of that statement.
        line: Python source; ``{name}`` stands for a variable that the person may name, and is ``name`` else.
        imports: Lines that have to stand among the imports.
        first_only: Only at the first such call of the file.
    """

    calls: tuple[str, ...]
    where: Literal["before", "after"]
    line: str
    imports: tuple[str, ...] = ()
    first_only: bool = False


Change = EnvironmentChange | SettingChange | CallChange | StatementChange


class Remedy(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """What can be done against a cause.

    Attributes:
        id: Its name: that of its file.
        title: What to do, in one line, in the imperative.
        kind: ``immediate``: gets the run going again; ``structural``: takes the cause away.
        category: Category of the causes that it is for.
        causes: The causes that it is for, by the names that signatures give them.
        signatures: Signatures that it is for whatever their cause; a pattern such as ``oom.*`` stands for a family.
        hides: It lets the run go on and leaves the cause in place.
        observes: It mends nothing, and lets the cause be seen.
        precondition: What must be so before it is used.
        effect: What it does, with the arithmetic where there is one.
        cost: What it takes: time, memory, money, speed.
        danger: How much can go wrong.
        dangers: What can go wrong.
        verification: How one sees that it helped.
        command: A command that shows it, where there is one.
        reversal: How to take it back.
        changes: What can be changed automatically, once the person has seen the change and said yes.
        instruction: What a person does where nothing can be changed automatically.
        caught_by: Rules of check, relations of monitor or checklist items (``checklist:LIST.ITEM``) that tell it before.
        note: What else has to be known: where textbooks are wrong about it.
        sources: Where it stands.
    """

    id: str
    title: str
    kind: RemedyKind
    category: Category
    causes: tuple[str, ...]
    signatures: tuple[str, ...] = ()
    hides: bool = False
    observes: bool = False
    precondition: str
    effect: str
    cost: str
    danger: Danger
    dangers: str = ""
    verification: str
    command: str | None = None
    reversal: str
    changes: tuple[Change, ...] = ()
    instruction: str = ""
    caught_by: tuple[str, ...] = ()
    note: str = ""
    sources: tuple[str, ...]
