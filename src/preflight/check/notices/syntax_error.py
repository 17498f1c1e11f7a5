"""A file does not parse.

## What it does
Reports a Python file or notebook, found in a folder, that is not valid Python 3.
When such a file is the only thing that was named, the command ends with exit code 2 instead.

## Why
Python reads a whole file before it runs the first line of it.
A script with a syntax error does not start, and a module with one ends every script that imports it.

## Fix
Correct the line that is named.
A file written for Python 2 can be converted with `2to3`.

## When to ignore
When the file is a template or test data that nobody runs; leave it out with `exclude` in `[tool.preflight]`.

## References
- Python, "Errors and Exceptions" (tutorial)
"""

from __future__ import annotations

from preflight.check.rule import Rule
from preflight.source.script import ScriptSyntaxError
from preflight.vocabulary.finding import Evidence, Finding, Fix, Location

RULE = Rule(name="syntax-error", code="SYN001", severity="error", confidence="certain", layer="S", tags=("syntax",))

BAD = ("def train(:\n    pass\n", "print 'epoch', epoch\n", "for x in loader\n    step(x)\n")
GOOD = ("print('epoch', 1)\n", "def train():\n    pass\n")


def finding_for(error: ScriptSyntaxError, path: str, data: bytes = b"") -> Finding:
    """Turn the parser's error into a finding.

    Args:
        error: What the reader raised.
        path: The file as it is shown.
        data: The bytes of a notebook, to name the cell.
    """
    said = str(error).removeprefix(f"{path}:{error.line}:{error.column}: ")
    return Finding(
        rule=RULE.name,
        code=RULE.code,
        severity=RULE.severity,
        confidence=RULE.confidence,
        message=f"the file cannot be run or imported: {said}",
        location=_place(error, path, data),
        evidence=(Evidence("what the parser says", said.removeprefix("syntax error: ")),),
        fix=Fix(
            title=error.hint or "correct the syntax of this line",
            instruction="run python -m py_compile on the file to see the error again",
            expected="the file can be parsed",
        ),
    )


def _place(error: ScriptSyntaxError, path: str, data: bytes) -> Location:
    if path.endswith(".ipynb") and data:
        from preflight.source.notebook import code_of

        _, firsts = code_of(data, path)
        cell = max(1, sum(1 for first in firsts if first <= error.line))
        return Location(path, error.line - firsts[cell - 1] + 1, error.column, cell=cell)
    return Location(path, error.line, error.column)
