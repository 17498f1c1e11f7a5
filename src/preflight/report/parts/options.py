"""What a caller may ask of a format."""

from __future__ import annotations

import msgspec

from preflight.vocabulary.rule_info import RuleInfo

VERBOSE = "--verbose"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller may ask of a format; each format reads what concerns it.

    Attributes:
        width: Columns of the terminal.
        color: Whether ANSI colours may be used.
        symbols: Whether the terminal shows block and line characters; plain ASCII otherwise.
        verbose: Whether to list what is otherwise only counted.
        rest: The option or the command that lists it, for a text that only counts it.
        sources: The text of each file by its path, for snippets and fingerprints.
        rules: What the rules say of themselves, for formats that carry rule pages.
        table: Which table a table format writes; the one that the report is about when None.
    """

    width: int = 80
    color: bool = False
    symbols: bool = True
    verbose: bool = False
    rest: str = VERBOSE
    sources: dict[str, str] = {}
    rules: tuple[RuleInfo, ...] = ()
    table: str | None = None
