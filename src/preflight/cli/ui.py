"""``preflight ui``: a local page that shows a run while it goes on."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from preflight.errors import InputError, UsageError


@click.command("ui")
@click.argument("folder", metavar="[FOLDER]", default=".")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="The port to listen on; 0: any that is free (default: 8766, or the next one that is free).",
)
@click.option(
    "--invariants",
    multiple=True,
    metavar="FILE",
    help="What must hold, from monitor infer (default: what the run itself is held against).",
)
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
def command(folder: str, host: str, port: int | None, invariants: tuple[str, ...], opens: bool) -> int:
    """Show a run on a page while it goes on: steps, loss, memory, ranks, and alarms as they come.

    FOLDER is a trace folder, or one with recordings in it or in its .preflight/monitor (default: the current folder).
    The newest one is shown first; the page lists the others, and finds those that begin later.

    The page changes nothing, asks nothing of the network and is served to this machine alone, unless --host says otherwise;
    over ssh: ssh -L 8766:localhost:8766 MACHINE. Ctrl-C ends it.
    """
    try:
        from preflight.cli.ui_.serve import Server, address, is_local, listen, open_browser
    except ImportError:
        raise UsageError("the page needs starlette and uvicorn", "pip install 'preflight-torch[ui]'") from None
    from preflight.cli.parts.recording import catalog
    from preflight.monitor.library_of import in_force

    root = Path(folder)
    if not root.is_dir():
        raise InputError(f"there is no folder {folder}", "name the folder in which programs are recorded")
    held = in_force(invariants, catalog())
    listening = listen(host, port)
    url = address(host, listening)

    def ready() -> None:
        click.echo(f"preflight ui: {url} shows the recordings of {folder}; Ctrl-C ends it", err=True)
        if not is_local(host):
            click.echo("preflight ui: whoever reaches this machine can read the page", err=True)
        if opens:
            open_browser(url)

    # The server ends at Ctrl-C by itself; whether the signal comes once more afterwards is up to whoever started this.
    with suppress(KeyboardInterrupt):
        Server(root, held, host, ready, kept=not invariants).serve_on(listening)
    click.echo("preflight ui: ended", err=True)
    return 0
