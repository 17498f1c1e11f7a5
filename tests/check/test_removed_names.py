"""The table of removed and deprecated names says the truth about the PyTorch that is installed."""

from __future__ import annotations

from importlib import import_module

import pytest

from preflight.check.queries.removed_names import NAMES

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def _find(name: str) -> object:
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part, None)
        return found
    return None


@pytest.mark.parametrize("name", [n for n, c in NAMES.items() if c.library == "PyTorch" and c.removed is None])
def test_deprecated_names_are_still_there(name: str) -> None:
    assert _find(name) is not None


@pytest.mark.parametrize("name", [n for n, c in NAMES.items() if c.library == "PyTorch" and c.removed is not None])
def test_removed_names_are_missing_or_refuse(name: str) -> None:
    found = _find(name)
    if found is None:
        return
    matrix = torch.eye(3)
    with pytest.raises(RuntimeError, match="now removed"):
        found(matrix, matrix) if name in ("torch.lstsq", "torch.solve") else found(matrix)  # type: ignore[operator]


@pytest.mark.parametrize(
    "name", [c.instead for c in NAMES.values() if c.library == "PyTorch" and c.instead.startswith("torch.")]
)
def test_what_to_use_instead_is_there(name: str) -> None:
    assert _find(name) is not None
