"""The server: checks a document when it is opened, changed or saved, and answers what an editor asks of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from preflight.cli.lsp_.actions import actions
from preflight.cli.lsp_.checking import Checked, check
from preflight.cli.lsp_.diagnostics import diagnostic
from preflight.cli.lsp_.hovering import hover
from preflight.vocabulary.version import VERSION

_PAUSE = 0.3
"""Seconds without a key before a text that changes is checked."""


class Checking:
    """The documents of an editor and their last checks."""

    def __init__(self, server: Any, given: dict[str, Any]) -> None:
        """Keep the server to answer through, and the options of its command line."""
        self.server = server
        self.given = given
        self.checked: dict[str, tuple[int | None, Checked]] = {}
        self.pending: dict[str, asyncio.Task[None]] = {}
        self.said: set[str] = set()

    def soon(self, uri: str, pause: float) -> None:
        """Check a document after a pause; what waits already for this one is dropped."""
        self.drop(uri)
        self.pending[uri] = asyncio.get_running_loop().create_task(self._check(uri, pause))

    def drop(self, uri: str) -> None:
        """Do not check what waits to be checked."""
        waiting = self.pending.pop(uri, None)
        if waiting is not None:
            waiting.cancel()

    async def _check(self, uri: str, pause: float) -> None:
        from lsprotocol import types

        if pause:
            await asyncio.sleep(pause)
        document, found = await self._now(uri)
        self._say(found.problem)
        told = [diagnostic(document, finding) for finding in found.findings]
        self.server.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri=uri, version=document.version, diagnostics=told)
        )

    def _say(self, problem: str | None) -> None:
        """Tell the person once what keeps scripts from being checked."""
        from lsprotocol import types

        if problem is not None and problem not in self.said:
            self.said.add(problem)
            self.server.window_show_message(
                types.ShowMessageParams(type=types.MessageType.Warning, message=f"Preflight: {problem}")
            )

    async def opened(self, parameters: Any) -> None:
        """A document was opened or saved: check it now, since what it imports may have been saved, too."""
        self.checked.pop(parameters.text_document.uri, None)
        self.soon(parameters.text_document.uri, 0)

    async def changed(self, parameters: Any) -> None:
        """A document changes: check it when the keys rest."""
        self.soon(parameters.text_document.uri, _PAUSE)

    async def closed(self, parameters: Any) -> None:
        """A document was closed: nothing is said of it any more."""
        from lsprotocol import types

        uri = parameters.text_document.uri
        self.drop(uri)
        self.checked.pop(uri, None)
        self.server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri=uri, diagnostics=[]))

    async def hover(self, parameters: Any) -> Any:
        """Answer what there is to say of a place."""
        from lsprotocol import types

        document, known = await self._now(parameters.text_document.uri)
        said = hover(document, known, parameters.position)
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, said)) if said else None

    async def actions(self, parameters: Any) -> Any:
        """Answer what can be done at a range."""
        document, known = await self._now(parameters.text_document.uri)
        only = parameters.context.only
        kinds = None if only is None else [getattr(kind, "value", kind) for kind in only]
        return actions(document, known, parameters.range, kinds)

    async def _now(self, uri: str) -> tuple[Any, Checked]:
        """Return a document and the check of the text that it has now: places of an older text are of no use."""
        while True:
            document = self.server.workspace.get_text_document(uri)
            version, found = self.checked.get(uri, (None, None))
            if found is not None and version == document.version:
                return document, found
            version = document.version
            found = await asyncio.to_thread(check, document.path, document.source, self.given)
            if uri not in self.server.workspace.text_documents:
                return document, found  # closed meanwhile
            self.checked[uri] = (version, found)


def make_server(given: dict[str, Any]) -> Any:
    """Return the language server.

    Args:
        given: ``gpu``, ``gpu_memory``, ``gpus``, ``launch`` and ``persona`` of the command line.
    """
    from lsprotocol import types
    from pygls.lsp.server import LanguageServer

    server = LanguageServer("preflight", VERSION)
    checking = Checking(server, given)
    kinds = [types.CodeActionKind.QuickFix, types.CodeActionKind.SourceFixAll]
    actions_of = types.CodeActionOptions(code_action_kinds=kinds)
    server.feature(types.TEXT_DOCUMENT_DID_OPEN)(_function(checking.opened))
    server.feature(types.TEXT_DOCUMENT_DID_CHANGE)(_function(checking.changed))
    server.feature(types.TEXT_DOCUMENT_DID_SAVE)(_function(checking.opened))
    server.feature(types.TEXT_DOCUMENT_DID_CLOSE)(_function(checking.closed))
    server.feature(types.TEXT_DOCUMENT_HOVER)(_function(checking.hover))
    server.feature(types.TEXT_DOCUMENT_CODE_ACTION, actions_of)(_function(checking.actions))
    return server


def _function(method: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
    """Return a method as a function of its own: the library writes on what it is given."""

    async def answer(parameters: Any) -> Any:
        return await method(parameters)

    return answer
