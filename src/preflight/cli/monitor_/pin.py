"""``preflight monitor pin``: keep an invariant, whatever later runs say."""

from __future__ import annotations

import click

from preflight.cli.parts.invariants import change_in, kept_in, sentence


@click.command("pin")
@click.argument("idents", nargs=-1, required=True, metavar="ID...")
@kept_in
@click.option("--undo", is_flag=True, help="Let later runs decide again.")
@click.option("--quiet", is_flag=True, help="Say nothing on stderr but errors.")
def command(idents: tuple[str, ...], file: str | None, undo: bool, quiet: bool) -> int:
    """Pin invariants: merging and learning from further runs keep them.

    ID is an invariant's id, or the beginning of one that fits no other.
    """
    import msgspec

    from preflight.cli.parts.live import remark
    from preflight.vocabulary.invariant import Invariant

    def say(one: Invariant) -> Invariant:
        return msgspec.structs.replace(one, pinned=not undo)

    changed, where = change_in(file, idents, say)
    if not quiet:
        for one in changed:
            remark(f"{one.id} is {'not pinned any more' if undo else 'pinned'} in {where}: {sentence(one)}")
    return 0
