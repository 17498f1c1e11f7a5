"""What is read of a script's containers."""

from __future__ import annotations

import ast

from preflight.check.queries.containers import containers_of, handled_elsewhere

_CLASS = """
class Log:
    def __init__(self):
        self.rows, self.kept = [], []
    def end(self):
        self.rows.append(1)
        self.kept.append(self.rows)
        for part in (self.rows, self.other):
            part.clear()
"""


def test_attributes_of_a_class_with_their_methods() -> None:
    (node,) = ast.parse(_CLASS).body
    assert isinstance(node, ast.ClassDef)
    scope = containers_of(node.body, attributes=True)
    assert [where for _value, where in scope.made["self.rows"]] == [()]
    assert sorted(scope.emptied) == ["self.other", "self.rows"]
    assert [(put.store, put.row) for put in scope.kept] == [("self.kept", "self.rows")]
    assert scope.filled["self.rows"] == [(node.body[1],)]


def test_names_of_a_script_with_their_loops() -> None:
    tree = ast.parse("rows = []\nfor x in y:\n    rows[:] = []\n    kept.append(rows)\ndef f():\n    rows.clear()\n")
    scope = containers_of(tree.body, attributes=False)
    assert scope.emptied["rows"] == [(tree.body[1],)]  # what a function does is its own scope
    assert [(put.store, put.row) for put in scope.kept] == [("kept", "rows")]


def test_what_is_handled_elsewhere() -> None:
    tree = ast.parse("a.memory.popleft()\ndel stored[0]\nagent.rows = []\nself.own = []\n")
    assert handled_elsewhere(tree) == ({"memory", "stored"}, {"rows"})
