"""Notebooks: which lines are magics, and that the places of the others stay."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from preflight.check.asked import Options
from preflight.check.examine import examine_named
from preflight.check.selection import Selection
from preflight.errors import UsageError
from preflight.source.notebook import code_of


def _code(*cells: str) -> str:
    book = {"cells": [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]}
    code, _ = code_of(json.dumps(book).encode(), "book.ipynb")
    ast.parse(code)
    assert code.count("\n") == sum(len(cell.splitlines()) + 1 for cell in cells)
    return code


@pytest.mark.parametrize(
    "cell",
    [
        "print('Epoch: %d | %d | Cost: %.4f'\n      %(epoch, batch,\n        len(loader), cost))",
        "rest = (number\n        % 7)",
        "rest = number \\\n    % 7",
        "text = '''\n%d of\n!ls\n'''",
        'row = ["""it\'s (""",\n       1\n       % 2]',
        "where = d[  # not (open\n  'a'\n]",
    ],
)
def test_a_line_that_goes_on_is_no_magic(cell: str) -> None:
    assert _code(cell).rstrip("\n") == cell


def test_a_shell_line_goes_on_after_a_backslash() -> None:
    code = _code(
        '%pip install --upgrade \\\n  "datasets==3.1.0" \\\n  accelerate\nimport torch\n', "if True:\n    !ls \\\n  -l"
    )
    assert code.splitlines() == ["pass", "", "", "import torch", "", "if True:", "    pass", "", ""]


def test_magics_after_an_open_bracket_that_was_closed() -> None:
    assert _code("x = f(1,\n      2)\n%matplotlib inline\n!nvidia-smi").splitlines()[2:4] == ["pass", "pass"]


def test_a_bracket_that_is_never_closed_does_not_reach_the_next_cell() -> None:
    book = {"cells": [{"cell_type": "code", "source": "x = (1"}, {"cell_type": "code", "source": "%matplotlib inline"}]}
    code, firsts = code_of(json.dumps(book).encode(), "book.ipynb")
    assert code.splitlines()[firsts[1] - 1] == "pass"


def test_a_dry_run_of_a_notebook_says_how_to_make_a_script_of_it(tmp_path: Path) -> None:
    path = tmp_path / "book.ipynb"
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "source": ["import torch\n"]}]}))
    with pytest.raises(UsageError, match="is a notebook") as caught:
        examine_named(str(path), Options(gpu="h100", dry_run=True), Selection())
    assert caught.value.hint == "jupyter nbconvert --to script"
