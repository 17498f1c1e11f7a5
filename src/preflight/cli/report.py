"""``preflight report``: one page of a run's life."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from preflight.cli.parts.options import output
from preflight.errors import InputError


@click.command("report")
@click.argument("named", metavar="[FOLDER]", required=False)
@click.option(
    "--begin", "begins", is_flag=True, help="Make the folder: from now on, commands leave their reports in it."
)
@output
@click.option("-v", "--verbose", is_flag=True, help="Show the newest report of each command in full.")
def command(named: str | None, begins: bool, **given: Any) -> int:
    """Put together what commands told of a run: checked, planned, watched, investigated.

    Commands leave their reports in .preflight of the folder that they are called in, where that is there (preflight
    monitor makes it; --begin does, too), or in the folder that PREFLIGHT_RUN names. FOLDER is another one to read.
    What looks like a secret is taken out.
    The newest report of each kind counts: the exit code is that of the worst of them.
    """
    from preflight.check.files.source_lines import SourceLines
    from preflight.cli.parts.run_folder import FOLDER, begin, folder, stages
    from preflight.cli.parts.writing import EXIT_CODES, answer, remark, writing_of
    from preflight.compare.life import life_of
    from preflight.investigate.redaction import redact

    look = writing_of(given)
    where = Path(named) if named is not None else folder() or Path(FOLDER)
    if begins:
        try:
            begin(where)
        except OSError as error:
            raise InputError(f"{where} cannot be made: {error.strerror or error}") from None
        remark(f"commands that are called here leave their reports in {where}", look)
    if not where.is_dir():
        raise InputError(f"there is no folder {where}", "preflight report --begin makes it")
    found, problems = stages(where)
    if not found and begins:
        return 0
    if not found:
        why = f": {problems[0]}" if problems else ""
        raise InputError(f"{where} holds no report yet{why}", "preflight check train.py leaves one")
    report = redact(life_of(str(where), found, problems), paths=False)
    answer(report, look, SourceLines())
    return EXIT_CODES[report.verdict]
