"""``preflight lsp``: the check in an editor."""

from __future__ import annotations

from typing import Any

import click

from preflight.cli.parts.options import persona, placed
from preflight.errors import UsageError


@click.command("lsp")
@placed
@persona
@click.option("--stdio", is_flag=True, help="Speak over standard input and output (it always does).")
def command(stdio: bool, **given: Any) -> int:
    """Serve editors over the language server protocol: findings, pages where the pointer rests, quick fixes.

    An editor starts this; it speaks over standard input and output. Texts are checked as they are written, read and never
    run, with [tool.preflight] of their project and the options given here.
    """
    try:
        from preflight.cli.lsp_.server import make_server

        server = make_server(given)
    except ImportError:
        raise UsageError("the language server needs pygls", "pip install 'preflight-torch[lsp]'") from None
    server.start_io()
    return 0
