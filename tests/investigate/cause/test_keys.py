"""Whose a function is that does not take an argument, and whose a module that lacks a name."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose

_LIBRARY = "/env/lib/python3.10/site-packages"
_PASSES_ON = (
    f'  File "{_LIBRARY}/torch/amp/autocast_mode.py", line 44, in decorate_autocast\n    return func(*args, **kwargs)\n'
)
_CHECKS = (
    f'  File "{_LIBRARY}/huggingface_hub/utils/_validators.py", line 4, in _inner\n    return fn(*args, **kwargs)\n'
)
_CALLS = f'  File "{_LIBRARY}/transformers/trainer.py", line 9, in step\n    loss = self.loss_of(inputs, scale=2)\n'


def told(folder: Path, frames: str, error: str) -> str:
    own = '  File "/job/lab/train.py", line 7, in <module>\n    run(net)\n'
    (folder / "run.log").write_text(f"Traceback (most recent call last):\n{own}{frames}{error}\n")
    incident = diagnose(folder).incident
    assert incident is not None
    return incident.category


@pytest.mark.parametrize(
    ("frames", "category"),
    [
        ("", "usercode"),
        (_PASSES_ON, "usercode"),
        (_CHECKS, "environment"),
        (_CALLS, "environment"),
        (_CALLS + _PASSES_ON, "environment"),
    ],
)
def test_who_passes_arguments_on_is_not_who_calls(tmp_path: Path, frames: str, category: str) -> None:
    error = "TypeError: Net.forward() got an unexpected keyword argument 'scale'"
    assert told(tmp_path, frames, error) == category


@pytest.mark.parametrize(
    ("module", "path", "category"),
    [
        ("lab.scores", "/job/lab/scores.py", "usercode"),
        ("lab", "/job/lab/__init__.py", "usercode"),
        ("lab.scores", "most likely due to a circular import) (/job/lab/scores.py", "usercode"),
        ("kit.scores", "/other/kit/scores.py", "environment"),
        ("kit.scores", f"{_LIBRARY}/kit/scores.py", "environment"),
        ("kit.scores", "unknown location", "environment"),
    ],
)
def test_a_name_that_a_module_of_the_program_itself_lacks(
    tmp_path: Path, module: str, path: str, category: str
) -> None:
    assert told(tmp_path, "", f"ImportError: cannot import name 'Auc' from '{module}' ({path})") == category


@pytest.mark.parametrize(
    ("code", "category"),
    [
        ("amp_state = package['amp']", "checkpoint"),
        ("amp = cfg['amp']", "usercode"),
    ],
)
def test_a_part_that_a_saved_state_lacks_is_no_setting(tmp_path: Path, code: str, category: str) -> None:
    frames = f'  File "/job/lab/train.py", line 9, in run\n    {code}\n'
    assert told(tmp_path, frames, "KeyError: 'amp'") == category


@pytest.mark.parametrize(
    ("frames", "module", "category"),
    [
        (
            '  File "/job/lab/models/net.py", line 3, in <module>\n    from layers.graph.fast import Fast\n',
            "layers.graph.fast",
            "usercode",
        ),
        ('  File "/job/lab/parts/a.py", line 3, in <module>\n    from parts.b import B\n', "parts.b", "usercode"),
        ('  File "/job/lab/parts/a.py", line 3, in <module>\n    import torch._six\n', "torch._six", "environment"),
        ('  File "/job/lab/parts/a.py", line 3, in <module>\n    import lab.fast\n', "lab.fast", "environment"),
        ('  File "/job/lab/parts/a.py", line 3, in <module>\n    import layers\n', "layers", "environment"),
        (f'  File "{_LIBRARY}/kit/a.py", line 3, in <module>\n    from utils.b import B\n', "utils.b", "environment"),
        ("", "src.trainer", "environment"),
    ],
)
def test_a_module_that_a_folder_of_its_own_lacks_is_none_that_could_be_installed(
    tmp_path: Path, frames: str, module: str, category: str
) -> None:
    assert told(tmp_path, frames, f"ModuleNotFoundError: No module named '{module}'") == category


def test_a_module_of_its_own_is_not_said_to_be_a_package_to_install(tmp_path: Path) -> None:
    text = (
        'Traceback (most recent call last):\n  File "/job/train.py", line 3, in <module>\n    from parts.a import A\n'
        '  File "/job/parts/a.py", line 3, in <module>\n    from parts.b import B\n'
        "ModuleNotFoundError: No module named 'parts.b'\n"
    )
    (tmp_path / "run.log").write_text(text)
    incident = diagnose(tmp_path).incident
    assert incident is not None
    assert "not installed" not in incident.headline
    assert incident.hypotheses[0].category == "usercode"
    assert not any("install" in one.remedy for one in incident.remedies)
    (tmp_path / "run.log").write_text(text + "".join(f"step {at} loss {4 / (at + 2):.3f}\n" for at in range(30)))
    assert diagnose(tmp_path).incident.category == "none"


@pytest.mark.parametrize(
    ("path", "category"),
    [("sklearn/metrics/_classification.py", "usercode"), ("sklearn/linear_model/_base.py", "data")],
)
def test_predictions_that_a_metric_finds_too_few_are_the_work_of_the_program(
    tmp_path: Path, path: str, category: str
) -> None:
    frames = f'  File "{_LIBRARY}/{path}", line 84, in _check\n    check_consistent_length(a, b)\n'
    error = "ValueError: Found input variables with inconsistent numbers of samples: [375, 640]"
    assert told(tmp_path, frames, error) == category


@pytest.mark.parametrize(
    ("path", "function", "category"),
    [("transformers/modeling_utils.py", "load_state_dict", "checkpoint"), ("kit/text.py", "lines", "data")],
)
def test_bytes_that_are_no_text_where_a_checkpoint_is_read_are_the_checkpoint(
    tmp_path: Path, path: str, function: str, category: str
) -> None:
    frames = f'  File "{_LIBRARY}/{path}", line 415, in {function}\n    if f.read(7) == "version":\n'
    error = "UnicodeDecodeError: 'utf-8' codec can't decode byte 0x80 in position 64: invalid start byte"
    assert told(tmp_path, frames, error) == category
