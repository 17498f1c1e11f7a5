"""Documents, boxes and pictures that are not there, and indices and constructors that older scripts use."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from preflight.dryrun.virtual.absent import arrays, boxes, clues, documents, graphs
from preflight.dryrun.virtual.absent.recorders import Recorder
from preflight.vocabulary.profile import Profile

SCENE = """
import json

def scene(folder):
    metas = {}
    for split in ("train", "val"):
        with open(f"{folder}/{split}.json") as file:
            metas[split] = json.load(file)
    for split in metas:
        meta = metas[split]
        for frame in meta["frames"][::2]:
            yield frame["file_path"] + ".png", array(frame["transform_matrix"])
        yield float(meta["camera_angle_x"])

def words():
    table = read("words.json")
    return len(table), table["<start>"]

def read(path):
    with open(path) as file:
        return json.load(file)
"""


def _made(folder: Path, call: str) -> object:
    """Return the document that code would be given at the first line that opens a file."""
    path = folder / "reads.py"
    path.write_text(SCENE)
    found: list[bytes | None] = []

    def opened(*_: object) -> None:
        frame = sys._getframe(1)
        found.append(documents.document(frame, lambda name: name == str(path)))
        raise FileNotFoundError

    space = {"open": opened, "folder": str(folder)}
    exec(compile(SCENE, str(path), "exec"), space)
    with pytest.raises(FileNotFoundError):
        eval(call, space)
    assert found[0] is not None
    return json.loads(found[0])


def test_a_document_has_the_parts_that_the_code_takes_from_it(tmp_path: Path) -> None:
    made = _made(tmp_path, "list(scene(folder))")
    assert isinstance(made, dict)
    assert set(made) == {"frames", "camera_angle_x"}
    assert 0 < made["camera_angle_x"] < 2
    frame = made["frames"][5]
    assert isinstance(frame["file_path"], str)
    assert [len(row) for row in frame["transform_matrix"]] == [4] * 4


def test_a_document_with_marks_among_words_is_a_vocabulary(tmp_path: Path) -> None:
    made = _made(tmp_path, "words()")
    assert isinstance(made, dict)
    assert sorted(made.values()) == list(range(len(made)))
    assert "<start>" in made


def test_boxes_lie_beside_pictures_that_were_made_up(tmp_path: Path) -> None:
    made = {str(tmp_path / "images" / "train")}
    lines = boxes.of_picture(str(tmp_path / "labels" / "train" / "a.txt"), made)
    assert lines is not None
    for line in lines.splitlines():
        number, *shares = line.split()
        assert number.isdigit()
        assert all(0 < float(share) < 1 for share in shares)
    assert boxes.of_picture(str(tmp_path / "labels" / "val" / "a.txt"), made) is None
    document = json.loads(boxes.coco())
    pictures = {picture["id"] for picture in document["images"]}
    assert all(note["image_id"] in pictures and note["area"] > 0 for note in document["annotations"])


def test_a_table_names_what_the_file_beside_it_refers_to(tmp_path: Path) -> None:
    (tmp_path / "cora.cites").write_text("35\t1033\n35\t7\n")
    (tmp_path / "cora.txt").write_text("notes on it\n")
    assert arrays.named_beside(str(tmp_path / "cora.content")) == ["35", "1033", "7"]


def test_sizes_of_graphs_are_those_of_the_documentation() -> None:
    table = """Networks.

        .. list-table::
            :header-rows: 1

            * - Name
              - #graphs
              - #nodes
              - #edges
            * - `Small`
              - 1
              - 2,708
              - 10,556
            * - Several
              - 188
              - ~17.9
              - ~39.6
    """
    assert graphs.stated(table, "small") == {"graphs": 1, "nodes": 2708, "edges": 10556}
    assert graphs.stated(table, "Several") == {"graphs": 188, "nodes": 17, "edges": 39}
    assert graphs.stated(table, "Other") is None
    assert graphs.stated("No table.", "Small") is None


def test_what_is_looked_for_in_vain_and_held_back_is_not_needed(tmp_path: Path) -> None:
    path = tmp_path / "looks.py"
    path.write_text(
        "import os\n"
        "def version():\n    try:\n        assert os.path.isdir('.git')\n    except Exception:\n        return ''\n"
        "assert os.path.isdir('data')\n"
    )
    assert clues.needing(str(path)) == {7: True}


def test_a_recorder_gives_back_the_settings_it_was_made_with() -> None:
    settings = Recorder("tensorflow").contrib.training.HParams(epochs=500, cudnn_enabled=True, layers=["a"], deep={})
    assert settings.epochs == 500
    assert settings.cudnn_enabled is True
    assert settings.layers == ["a"]
    assert isinstance(settings.deep, Recorder)


@pytest.mark.torch
@pytest.mark.slow
def test_indices_powers_and_default_types_go_as_on_a_gpu(run_program: Callable[[str], Profile]) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("numpy")
    run_program(
        """
        import numpy as np
        import torch

        table = torch.zeros(6, 4, device="cuda")
        table[range(3), torch.tensor([0, 1, 2], device="cuda")] = 1.0
        assert table[[0, 1]].shape == table[np.array([0, 2])].shape == (2, 4)
        assert table[[[0, 1], [2, 3]]].shape == (2, 2, 4) and table[[]].shape == (0, 4)
        assert (2.0 ** torch.linspace(0, 3, 4, device="cuda")).tolist() == [1.0, 2.0, 4.0, 8.0]
        spread = torch.ones(1, 3, 1, 2).expand(1, 3, 8, 2).to("cuda")
        assert spread.stride() == (48, 16, 2, 1) and spread.untyped_storage().nbytes() == 192
        assert torch.ones(8, 6)[::2].cuda().untyped_storage().nbytes() == 96
        torch.set_default_tensor_type("torch.cuda.FloatTensor")
        assert torch.Tensor([1e10]).is_cuda and torch.Tensor(3, 4).shape == (3, 4)
        assert not torch.FloatTensor([1]).is_cuda
        """
    )


@pytest.mark.torch
@pytest.mark.slow
def test_what_is_asserted_of_numbers_that_nobody_has_is_taken_to_hold(run_program: Callable[[str], Profile]) -> None:
    pytest.importorskip("torch")
    run_program(
        """
        import torch

        boxes = torch.nn.Linear(400, 400).cuda()(torch.rand(400, 400, device="cuda")).sigmoid()
        assert (boxes[:, 2:] >= boxes[:, :-2]).all()
        assert not (boxes[:, 2:] < boxes[:, :-2]).any(), "boxes are upside down"
        known = torch.tensor([1, 2], device="cuda")
        try:
            assert (known > 1).all()
        except AssertionError:
            pass
        else:
            raise ValueError("what is known is not taken on trust")
        """
    )


def test_what_one_function_says_of_a_document_counts_where_nobody_of_the_persons_own_called_it(tmp_path: Path) -> None:
    path = tmp_path / "reads.py"
    path.write_text("def read(made):\n    table = made()\n    print(float(table['rate']))\n    return table\n")
    space: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    found: list[bytes | None] = []

    def made() -> dict[str, float]:
        found.append(documents.document(sys._getframe(1), lambda name: name == str(path)))
        return {"rate": 0.5}

    space["read"](made)
    assert found[0] is not None
    assert list(json.loads(found[0])) == ["rate"]
