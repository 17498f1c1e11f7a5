"""For what something was to be pickled that cannot be: the frames tell, and a class that has moved is of a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.cause.pickling import wanted_for
from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.log import Frame, Hit, Raised

_HIT = Hit(signature="", file=0, line=1, offset=0, text="x")


@pytest.mark.parametrize(
    ("path", "function", "category"),
    [
        ("/env/torch/utils/data/dataloader.py", "__init__", "data"),
        ("/env/torch/distributed/distributed_c10d.py", "broadcast_object_list", "usercode"),
        ("/usr/lib/python3.12/copy.py", "deepcopy", "usercode"),
        ("/env/torch/serialization.py", "_save", "checkpoint"),
        ("/usr/lib/python3.12/multiprocessing/popen_spawn_posix.py", "_launch", None),
    ],
)
def test_the_frames_tell_for_what(path: str, function: str, category: str | None) -> None:
    frames = (Frame("train.py", 3, "main"), Frame(path, 4, function))
    assert wanted_for(Raised(exception="TypeError", message="", frames=frames, hit=_HIT)) == category


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("AttributeError: Can't get attribute 'C3k2' on <module 'ultralytics.nn.modules.block' from 'a.py'>", "checkpoint"),
        ("AttributeError: Can't get attribute 'Tokens' on <module '__main__' (built-in)>", "data"),
    ],
)  # fmt: skip
def test_a_class_that_its_module_lacks_was_pickled_into_a_file(tmp_path: Path, text: str, category: str) -> None:
    (tmp_path / "run.log").write_text(text + "\n")
    assert diagnose(tmp_path).incident.category == category


def test_a_message_to_other_ranks_is_the_programs(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("""\
Traceback (most recent call last):
  File "train.py", line 11, in run
    dist.broadcast_object_list(told, src=0)
  File "/env/torch/distributed/distributed_c10d.py", line 2600, in _object_to_tensor
    _pickler(f).dump(obj)
AttributeError: Can't pickle local object 'run.<locals>.<lambda>'
""")
    assert diagnose(tmp_path).incident.category == "usercode"
