"""Whether a module of the project has an attribute: what nothing gave it, it has not."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.source.reading import read
from preflight.source.script import read_script
from preflight.source.values import Known, settle

SCRIPT = """
import torch.nn as nn

class Block(nn.Module):
    def __init__(self, short):
        super().__init__()
        self.one = nn.Linear(2, 2)
        if short:
            self.shortcut = nn.Linear(2, 2)

net = Block({short})
{more}
found = hasattr(net, "{name}")
"""


@pytest.mark.parametrize(
    ("short", "more", "name", "known"),
    [
        (True, "", "shortcut", True),
        (False, "", "shortcut", False),
        (False, "", "train", None),
        (False, "", "_hooks", None),
        (False, "setattr(net, input(), 1)", "shortcut", None),
        (False, "setattr(net, 'other', 1)", "shortcut", False),
    ],
)
def test_an_attribute_that_nothing_gave_is_not_there(
    tmp_path: Path, short: bool, more: str, name: str, known: bool | None
) -> None:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT.format(short=short, more=more, name=name))
    found = settle(read(read_script(path)).machine.module.namespace["found"])
    assert (found.value if isinstance(found, Known) else None) is known
