"""To which calls a list is handed that may take things out of it."""

from __future__ import annotations

import ast

import pytest

from preflight.check.queries.handed_lists import handed_over


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import random\nrandom.choice(rows)\nlen(rows)\nprint(self.rows)\n", set()),
        ("from torch import stack\nstack(rows, dim=0)\n", set()),
        ("import heapq\nheapq.heappop(rows)\n", {"rows"}),
        ("from elsewhere import flush\nflush(rows)\n", {"rows"}),
        ("from .writing import flush\nflush(all=self.rows)\n", {"rows"}),
        ("writer.write(rows)\n", {"rows"}),
        ("def show(lines):\n    print(lines)\nshow(rows)\n", set()),
        ("def send(pending):\n    pending.clear()\nsend(rows)\n", {"rows"}),
        ("class Data:\n    pass\nData(rows)\n", set()),
    ],
)
def test_only_what_is_known_to_read_a_list_leaves_it_whole(text: str, found: set[str]) -> None:
    assert handed_over(ast.parse(text), {"pending"}) == found
