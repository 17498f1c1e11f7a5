"""The language server, spoken to by a real client over standard input and output."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

pytest.importorskip("pygls")

from lsprotocol import types
from pygls.lsp.client import LanguageClient

from preflight.cli.lsp_.checking import check

from .command_line import HEALTHY, NEVER_ZEROED

WAIT = 120
WIDE = "title = '\N{GRINNING FACE}'; "  # two code units of the protocol, one character


class Editor:
    """A client with one document after another."""

    def __init__(self, client: LanguageClient) -> None:
        self.client = client
        self.told: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()
        self.shown: list[str] = []
        client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(lambda said: self.told.put_nowait(said))
        client.feature(types.WINDOW_SHOW_MESSAGE)(lambda said: self.shown.append(said.message))

    async def open(self, path: Path, text: str | None = None) -> types.PublishDiagnosticsParams:
        item = types.TextDocumentItem(
            uri=path.as_uri(), language_id="python", version=1, text=path.read_text() if text is None else text
        )
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(text_document=item))
        return await self.next()

    async def write(self, path: Path, text: str, version: int) -> types.PublishDiagnosticsParams:
        document = types.VersionedTextDocumentIdentifier(uri=path.as_uri(), version=version)
        change = types.TextDocumentContentChangeWholeDocument(text=text)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))
        return await self.next()

    async def next(self) -> types.PublishDiagnosticsParams:
        return await asyncio.wait_for(self.told.get(), WAIT)

    async def hover(self, path: Path, line: int, character: int) -> str:
        about = types.TextDocumentIdentifier(path.as_uri())
        found = await self.client.text_document_hover_async(types.HoverParams(about, types.Position(line, character)))
        if found is None:
            return ""
        assert isinstance(found.contents, types.MarkupContent)
        return found.contents.value

    async def actions(self, path: Path, where: types.Range, *only: str) -> list[types.CodeAction]:
        about = types.TextDocumentIdentifier(path.as_uri())
        context = types.CodeActionContext(diagnostics=[], only=list(only) or None)  # type: ignore[arg-type]
        found = await self.client.text_document_code_action_async(types.CodeActionParams(about, where, context))
        return [one for one in found or () if isinstance(one, types.CodeAction)]


def spoken(project: Path, steps: Callable[[Editor], Awaitable[None]], *options: str) -> None:
    """Start the server, go through the steps of an editor, and end as an editor does."""

    async def session() -> None:
        client = LanguageClient("editor", "1")
        editor = Editor(client)
        await client.start_io(sys.executable, "-m", "preflight", "lsp", "--stdio", *options)
        try:
            root = types.InitializeParams(capabilities=types.ClientCapabilities(), root_uri=project.as_uri())
            answer = await asyncio.wait_for(client.initialize_async(root), WAIT)
            assert answer.server_info is not None
            assert answer.server_info.name == "preflight"
            client.initialized(types.InitializedParams())
            await steps(editor)
        finally:
            await asyncio.wait_for(client.shutdown_async(None), WAIT)
            client.exit(None)
            process = client._server
            assert process is not None
            assert await asyncio.wait_for(process.wait(), WAIT) == 0
            await asyncio.wait_for(client.stop(), WAIT)

    asyncio.run(session())


def applied(text: str, edit: types.WorkspaceEdit | None) -> str:
    """Apply the edits of one document, last first; columns are code units of UTF-16."""
    assert edit is not None
    assert edit.changes is not None
    (edits,) = edit.changes.values()
    lines = text.split("\n")

    def offset(at: types.Position) -> int:
        units = lines[at.line].encode("utf-16-le")[: 2 * at.character].decode("utf-16-le")
        return sum(len(line) + 1 for line in lines[: at.line]) + len(units)

    for one in sorted(edits, key=lambda one: (one.range.start.line, one.range.start.character), reverse=True):
        text = text[: offset(one.range.start)] + one.new_text + text[offset(one.range.end) :]
    return text


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(NEVER_ZEROED)
    return path


def test_a_script_is_written_and_mended(script: Path) -> None:
    async def steps(editor: Editor) -> None:
        first = await editor.open(script)
        found = {one.code: one for one in first.diagnostics}
        never = (
            found["COR001"] if "COR001" in found else next(one for one in first.diagnostics if "zero" in one.message)
        )
        assert never.severity == types.DiagnosticSeverity.Error
        assert never.source == "preflight"
        page = await editor.hover(script, never.range.start.line, never.range.start.character)
        assert "gradients-never-zeroed" in page
        assert "## Why" in page
        assert "`optimizer.name`" in await editor.hover(script, 3, 0)  # what the check read from the line
        quick = await editor.actions(script, never.range, "quickfix")
        assert quick[0].is_preferred is not None
        mended = applied(NEVER_ZEROED, quick[0].edit)
        second = await editor.write(script, mended, 2)
        assert second.version == 2
        assert never.code not in {one.code for one in second.diagnostics}
        hidden = applied(NEVER_ZEROED, next(one for one in quick if one.title.startswith("Hide")).edit)
        third = await editor.write(script, hidden, 3)
        assert never.code not in {one.code for one in third.diagnostics}
        broken = await editor.write(script, "import torch\ndef train(:\n    pass\n", 4)
        assert [(one.code, one.range.start.line) for one in broken.diagnostics] == [("SYN001", 1)]
        about = types.TextDocumentIdentifier(script.as_uri())
        editor.client.text_document_did_close(types.DidCloseTextDocumentParams(about))
        assert not (await editor.next()).diagnostics

    spoken(script.parent, steps)


def test_a_fix_is_one_of_the_text_that_there_is_now(script: Path) -> None:
    later = "# a line above\n" + NEVER_ZEROED

    async def steps(editor: Editor) -> None:
        await editor.open(script)
        document = types.VersionedTextDocumentIdentifier(uri=script.as_uri(), version=2)
        change = types.TextDocumentContentChangeWholeDocument(text=later)
        editor.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))
        everywhere = types.Range(types.Position(0, 0), types.Position(99, 0))  # asked before the change is checked
        quick = next(one for one in await editor.actions(script, everywhere, "quickfix") if "zero" in one.title)
        mended = applied(later, quick.edit)
        assert "OPT001" not in {one.code for one in check(str(script), mended, {}).findings}

    spoken(script.parent, steps)


def test_columns_are_those_of_the_protocol(script: Path) -> None:
    text = NEVER_ZEROED.replace("optimizer = ", WIDE + "optimizer = ")
    expected = {(one.location.line, one.code) for one in check(str(script), text, {}).findings}

    async def steps(editor: Editor) -> None:
        told = await editor.open(script, text)
        assert {(one.range.start.line + 1, one.code) for one in told.diagnostics} == expected
        plain = await editor.write(script, NEVER_ZEROED, 2)
        by_code = {one.code: one.range.start for one in plain.diagnostics}
        for one in told.diagnostics:
            if one.range.start.line == 3:  # the line with the wide character in front
                # The same column behind it, further on by its length in code units of UTF-16.
                assert one.range.start.character == by_code[one.code].character + len(WIDE.encode("utf-16-le")) // 2

    spoken(script.parent, steps)


def test_options_and_the_configuration_of_the_project_hold(script: Path) -> None:
    (script.parent / "pyproject.toml").write_text('[tool.preflight]\nignore = ["gradients-never-zeroed"]\n')

    async def steps(editor: Editor) -> None:
        told = await editor.open(script)
        assert not [one for one in told.diagnostics if "zero" in one.message]
        (script.parent / "pyproject.toml").write_text('[tool.preflight]\nignore = ["no-such-rule"]\n')
        await editor.write(script, HEALTHY, 2)
        assert any("no-such-rule" in said for said in editor.shown)

    spoken(script.parent, steps, "--gpu", "a100-40gb")


def test_a_text_that_trains_nothing_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "plain.py"

    async def steps(editor: Editor) -> None:
        assert not (await editor.open(path, "print('hello'\n")).diagnostics

    spoken(tmp_path, steps)


def test_all_safe_fixes_at_once(tmp_path: Path) -> None:
    from preflight.check.files.fix import Fixing

    path = tmp_path / "train.py"
    text = HEALTHY + "\nprint(loss)  # preflight: ignore[gradients-never-zeroed]\n"
    path.write_text(text)
    found = check(str(path), text, {"persona": "pedantic"}).findings
    fixed = Fixing(found, unsafe=False, root=str(tmp_path)).changes[str(path)].after
    assert fixed != text

    async def steps(editor: Editor) -> None:
        await editor.open(path, text)
        everywhere = types.Range(types.Position(0, 0), types.Position(0, 0))
        (action,) = await editor.actions(path, everywhere, "source.fixAll")
        assert applied(text, action.edit) == fixed

    spoken(tmp_path, steps, "--persona", "pedantic")


def test_an_error_of_ours_is_told_and_ends_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from preflight.cli.lsp_ import checking

    def broken(*_: object) -> None:
        raise KeyError("a key")

    monkeypatch.setattr(checking, "examine_script", broken)
    found = checking.check(str(tmp_path / "train.py"), "import torch\n", {})
    assert found.findings == ()
    assert found.problem is not None
    assert "internal error KeyError" in found.problem
