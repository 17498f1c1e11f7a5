"""What is left of a tensor of known sizes when a part of it is taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.source.reading import read
from preflight.source.script import read_script
from preflight.source.tensor_shapes import shape_of


@pytest.mark.parametrize(
    ("key", "shape"),
    [
        (":, :-1", (64, 128, 8)),
        (":, 1:", (64, 128, 8)),
        ("3", (129, 8)),
        ("0, ..., 2:4", (129, 2)),
        ("..., None", (64, 129, 8, 1)),
        (":, ::2", (64, 65, 8)),
        (":10, 100:", (10, 29, 8)),
        ("..., 0", (64, 129)),
        (":, :unknown", None),
        ("unknown", None),
        ("0, 0, 0, 0", None),
    ],
)
def test_the_shape_of_what_is_taken(tmp_path: Path, key: str, shape: tuple[int, ...] | None) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"import torch\nx = torch.randn(64, 129, 8)\ny = x[{key}]\n", encoding="utf-8")
    found = read(read_script(script)).machine.module.namespace["y"]
    assert shape_of(found) == shape
