"""Which branches only some ranks take."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.source.ranks import carries_rank, rank_guard
from preflight.source.reading import Reading, read
from preflight.source.script import read_script

_HEAD = """
import argparse, os, torch
import torch.distributed as dist
p = argparse.ArgumentParser()
p.add_argument("--local_rank", type=int, default=-1)
args = p.parse_args()
ddp = int(os.environ.get("RANK", -1)) != -1
def get_rank():
    return dist.get_rank() if dist.is_initialized() else 0
master = int(os.environ.get("RANK", 0)) == 0
"""


def _reading(tmp_path: Path, text: str) -> Reading:
    (tmp_path / "train.py").write_text(text)
    return read(read_script(tmp_path / "train.py"))


@pytest.mark.parametrize(
    ("test", "kind"),
    [
        ("get_rank() == 0", "global"),
        ("not dist.is_initialized() or dist.get_rank() == 0", "global"),
        ("master", "global"),
        ("args.local_rank in (-1, 0)", "local"),
        ("int(os.environ['LOCAL_RANK']) < 1", "local"),
        ("args.local_rank != -1", None),
        ("ddp", None),
        ("dist.get_world_size() > 1", None),
    ],
)
def test_guards(tmp_path: Path, test: str, kind: str | None) -> None:
    reading = _reading(tmp_path, _HEAD + f"if {test}:\n    torch.save(1, 'a')\n")
    (event,) = reading.trace.calls("torch.save")
    assert rank_guard(event) == kind


def test_early_return_guards_what_follows(tmp_path: Path) -> None:
    text = _HEAD + "def main():\n    if get_rank() != 0:\n        return\n    torch.save(1, 'a')\nmain()\n"
    (event,) = _reading(tmp_path, text).trace.calls("torch.save")
    assert rank_guard(event) == "global"


def test_paths_that_name_the_rank(tmp_path: Path) -> None:
    first, second = _reading(
        tmp_path, _HEAD + "torch.save(1, f'shard_{dist.get_rank()}.pt')\ntorch.save(1, 'shard.pt')\n"
    ).trace.calls("torch.save")
    assert carries_rank(first.args[1])
    assert not carries_rank(second.args[1])


def test_spawned_function_gets_its_index_and_arguments(tmp_path: Path) -> None:
    text = "import torch\nimport torch.multiprocessing as mp\ndef work(i, x):\n    if i == 0:\n        torch.save(x, 'a')\nmp.spawn(work, args=(7,), nprocs=4)\n"
    (event,) = _reading(tmp_path, text).trace.calls("torch.save")
    assert rank_guard(event) == "global"
    assert getattr(event.args[0], "value", None) == 7


def test_second_parser_takes_what_the_first_left(tmp_path: Path) -> None:
    text = (
        "import argparse, torch\na = argparse.ArgumentParser()\n_, rest = a.parse_known_args()\n"
        "b = argparse.ArgumentParser()\nb.add_argument('data')\nb.add_argument('--n', type=int, default=3)\n"
        "args = b.parse_args(rest)\ntorch.save(args.n, 'a')\n"
    )
    (event,) = _reading(tmp_path, text).trace.calls("torch.save")
    assert getattr(event.args[0], "value", None) == 3
