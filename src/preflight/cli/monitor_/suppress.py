"""``preflight monitor suppress``: do not hear of an invariant any more, and say why."""

from __future__ import annotations

import click

from preflight.cli.parts.invariants import change_in, kept_in, sentence


@click.command("suppress")
@click.argument("ident", metavar="ID")
@click.argument("reason", metavar="REASON", required=False)
@kept_in
@click.option("--undo", is_flag=True, help="Hear of it again.")
@click.option("--quiet", is_flag=True, help="Say nothing on stderr but errors.")
def command(ident: str, reason: str | None, file: str | None, undo: bool, quiet: bool) -> int:
    """Suppress an invariant: its violations are counted and not shown.

    ID is an invariant's id, or the beginning of one that fits no other; REASON says why.
    """
    import msgspec

    from preflight.cli.parts.live import remark
    from preflight.errors import UsageError
    from preflight.vocabulary.invariant import Invariant

    if not undo and not (reason or "").strip():
        raise UsageError(
            "suppressing needs a reason", f'preflight monitor suppress {ident} "why it does not matter here"'
        )

    def say(one: Invariant) -> Invariant:
        return msgspec.structs.replace(one, suppressed=None if undo else reason)

    changed, where = change_in(file, [ident], say)
    if not quiet:
        remark(f"{changed[0].id} is {'in force again' if undo else 'suppressed'} in {where}: {sentence(changed[0])}")
    return 0
