"""Another number in a line of the person's own code, as if it had been edited there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from preflight.dryrun.virtual import compiling

if TYPE_CHECKING:
    from preflight.dryrun.virtual.changes import Change, Run


def install(change: Change, run: Run) -> None:
    """Replace the number ``before`` at ``path``, ``line`` and ``column`` (from 1) by ``value``."""
    options = change.options
    place = (os.path.realpath(options["path"]), options["line"], options["column"])
    words = f"{options['before']} became {options['value']} in line {options['line']}"
    compiling.EDITS[place] = (options["before"], options["value"], lambda: change.did(words))
