"""Changes in Python source: keywords of calls, numbers that are settings, a statement beside another."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from preflight.errors import InputError, UsageError
from preflight.investigate.applying.values import becomes, check_word
from preflight.vocabulary.remedy import CallChange, EnvironmentChange, SettingChange, StatementChange

_NAME = re.compile(r"\{(\w+)\}")


class Source:
    """A parsed file in which positions can be found."""

    def __init__(self, path: str, text: str) -> None:
        """Parse it.

        Raises:
            InputError: It is not Python.
        """
        try:
            self.tree = ast.parse(text)
        except (SyntaxError, ValueError) as error:
            line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
            raise InputError(f"{path}{line}: is not Python: {getattr(error, 'msg', error)}") from None
        self.text = text
        self._lines = text.encode().splitlines(keepends=True)

    def at(self, line: int, column: int) -> int:
        """Character at which a position of the tree lies (its columns count bytes)."""
        return len(b"".join(self._lines[: line - 1]).decode()) + len(self._lines[line - 1][:column].decode())

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """First character of a node and the one behind it."""
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno or 0, node.end_col_offset or 0)

    def calls(self, names: tuple[str, ...]) -> list[ast.Call]:
        """Calls of functions or methods whose last name is one of these, in the order of the text."""
        found = [one for one in ast.walk(self.tree) if isinstance(one, ast.Call) and _last(one.func) in names]
        return sorted(found, key=lambda one: (one.lineno, one.col_offset))


def _last(node: ast.expr) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None


def set_keyword(change: CallChange, path: str, text: str, value: str | None) -> tuple[str, str | None]:
    """Give a keyword of every such call another value; return the text and what was done."""
    source = Source(path, text)
    new = _expression(value) if value is not None else change.value
    edits: list[tuple[int, int, str]] = []
    for call in source.calls(change.calls):
        there = {word.arg: word.value for word in call.keywords if word.arg is not None}
        if any(name not in there for name in change.only_if) or any(word.arg is None for word in call.keywords):
            continue
        if change.keyword in there:
            start, end = source.span(there[change.keyword])
            if text[start:end] != new:
                edits.append((start, end, new))
            continue
        close = source.span(call)[1] - 1
        inside = text[:close].rstrip()
        glue = "" if inside.endswith("(") else " " if inside.endswith(",") else ", "
        edits.append((len(inside), len(inside), f"{glue}{change.keyword}={new}"))
    if not edits:
        return text, None
    after = _with_imports(path, _edited(text, edits), change.imports)
    many = f" in {len(edits)} calls" if len(edits) > 1 else ""
    return after, f"{change.keyword}={new}{many}"


def _expression(value: str) -> str:
    try:
        ast.parse(check_word(value), mode="eval")
    except SyntaxError:
        raise UsageError(f"{value!r} is not a Python expression", "quote a text once more: '\"text\"'") from None
    return value


def _edited(text: str, edits: list[tuple[int, int, str]]) -> str:
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _with_imports(path: str, text: str, imports: tuple[str, ...]) -> str:
    """Put import lines that are missing behind the last import at the top of the file."""
    source = Source(path, text)
    have = {ast.unparse(node) for node in source.tree.body if isinstance(node, (ast.Import, ast.ImportFrom))}
    bound = {
        alias.asname or alias.name for node in source.tree.body if isinstance(node, ast.Import) for alias in node.names
    }
    missing = [line for line in imports if line not in have and line.removeprefix("import ") not in bound]
    if not missing:
        return text
    line = _after_imports(source.tree)
    at = source.at(line + 1, 0) if line < len(text.splitlines()) else len(text)
    glue = "" if not text[:at] or text[:at].endswith("\n") else "\n"
    return text[:at] + glue + "\n".join(missing) + "\n" + text[at:]


def _after_imports(tree: ast.Module) -> int:
    """Number of the line behind which an import may stand: the last one of the first run, or the docstring."""
    line = 0
    for position, node in enumerate(tree.body):
        doc = position == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not (doc or isinstance(node, (ast.Import, ast.ImportFrom))):
            break
        line = node.end_lineno or line
    return line


def add_statement(change: StatementChange, path: str, text: str, given: Mapping[str, str]) -> tuple[str, str | None]:
    """Put a line beside the statements that make a call; return the text and what was done.

    Where the file makes the call of that line already, it stays as it is: with other arguments, it is that line which
    is to be looked at.

    Raises:
        UsageError: A variable of the line is not in the file, and the person has not named it.
    """
    if already(change, path, text):
        return text, None
    source = Source(path, text)
    line = _filled(change.line, source.tree, given)
    wanted = source.calls(change.calls)
    edits: list[tuple[int, int, str]] = []
    for statement in _statements(source.tree):
        if not any(call in wanted for call in _own_calls(statement)):
            continue
        indent = " " * statement.col_offset
        if change.where == "before":
            at = source.at(statement.lineno, 0)
        else:
            at = (
                source.at((statement.end_lineno or 0) + 1, 0)
                if (statement.end_lineno or 0) < len(source._lines)
                else len(text)
            )
        glue = "" if not text[:at] or text[:at].endswith("\n") else "\n"
        edits.append((at, at, f"{glue}{indent}{line}\n"))
        if change.first_only:
            break
    if not edits:
        return text, None
    after = _with_imports(path, _edited(text, edits), change.imports)
    Source(path, after)
    return after, f"{line} {change.where} {' or '.join(change.calls)}(...)"


def already(change: StatementChange, path: str, text: str) -> list[int]:
    """Return the lines that make the call of a statement already, whatever its arguments are.

    Raises:
        InputError: The file is not Python.
    """
    made = ast.parse(_NAME.sub("name", change.line)).body[0]
    called = made.value.func if isinstance(made, ast.Expr) and isinstance(made.value, ast.Call) else None
    name = None if called is None else _last(called)
    return [] if name is None else [call.lineno for call in Source(path, text).calls((name,))]


def _statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements that stand alone on their lines, in the order of the text."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    yield from sorted(found, key=lambda one: (one.lineno, one.col_offset))


def _own_calls(statement: ast.stmt) -> Iterator[ast.Call]:
    """Yield the calls of a simple statement; those inside the body of a compound one belong to its statements."""
    if not isinstance(statement, (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return)):
        return
    yield from (node for node in ast.walk(statement) if isinstance(node, ast.Call))


def _filled(line: str, tree: ast.Module, given: Mapping[str, str]) -> str:
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for wanted in _NAME.findall(line):
        name = given.get(wanted, wanted)
        if name.partition(".")[0] not in names | {"self"}:
            raise UsageError(f"no variable is called {name!r} there", f"say which one it is: --with {wanted}=NAME")
        line = line.replace("{" + wanted + "}", name)
    return line


def set_number(change: SettingChange, path: str, text: str, value: str | None) -> tuple[str, str | None]:
    """Change a setting that stands as a constant: an assignment, a keyword, a key, the default of an option."""
    source = Source(path, text)
    for wanted in change.names:
        for name, node in sorted(_settings(source.tree), key=lambda one: (one[1].lineno, one[1].col_offset)):
            if name != wanted.replace("-", "_"):
                continue
            start, end = source.span(node)
            new = becomes(change, text[start:end], _expression(value) if value is not None else None, "python")
            if new is not None:
                return text[:start] + new + text[
                    end:
                ], f"{name} = {new} in place of {text[start:end]} (line {node.lineno})"
    return text, None


def _settings(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(tree):
        pairs: list[tuple[str | None, ast.expr | None]] = []
        if isinstance(node, ast.Assign):
            pairs = [(_last(target), node.value) for target in node.targets]
        elif isinstance(node, ast.AnnAssign):
            pairs = [(_last(node.target), node.value)]
        elif isinstance(node, ast.Call):
            pairs = [(word.arg, word.value) for word in node.keywords]
            if _last(node.func) == "add_argument":
                flags = [
                    a.value.lstrip("-").replace("-", "_")
                    for a in node.args
                    if isinstance(a, ast.Constant) and isinstance(a.value, str)
                ]
                default = next((word.value for word in node.keywords if word.arg == "default"), None)
                pairs = [(flag, default) for flag in flags]
        elif isinstance(node, ast.Dict):
            pairs = [
                (k.value if isinstance(k, ast.Constant) and isinstance(k.value, str) else None, v)
                for k, v in zip(node.keys, node.values, strict=True)
            ]
        yield from ((name, value) for name, value in pairs if name is not None and isinstance(value, ast.Constant))


_IMPORT = "import os\n\n"


def set_environment(change: EnvironmentChange, path: str, text: str, value: str | None) -> tuple[str, str | None]:
    """Set a variable before anything is imported that might read it; return the text and what was done."""
    source = Source(path, text)
    wanted = value if value is not None else change.value
    if wanted is None:
        return text, None
    line = f'os.environ["{change.variable}"] = {check_word(wanted)!r}'
    if line in text:
        return text, None
    at_line = 0
    for position, node in enumerate(source.tree.body):
        doc = position == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not (doc or (isinstance(node, ast.ImportFrom) and node.module == "__future__")):
            break
        at_line = node.end_lineno or at_line
    at = source.at(at_line + 1, 0) if at_line < len(source._lines) else len(text)
    lead = "\n" if at and not text[:at].endswith("\n\n") else ""
    rest = text[at:].lstrip("\n")
    if rest.startswith(f"{_IMPORT}os.environ["):  # another variable is set there
        after = f"{text[:at]}{lead}{_IMPORT}{line}\n{rest.removeprefix(_IMPORT)}"
    else:
        after = f"{text[:at]}{lead}{_IMPORT}{line}\n\n{rest}"
    Source(path, after)
    return after, f"{change.variable}={wanted} is set before the imports"


__all__ = ["Source", "add_statement", "already", "set_environment", "set_keyword", "set_number"]
