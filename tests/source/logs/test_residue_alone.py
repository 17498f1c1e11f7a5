"""A line that looks like trouble and that no signature asks for is kept."""

from __future__ import annotations

from pathlib import Path

from preflight.source.logs import read_logs


def test_trouble_that_nothing_asks_for_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("step 1 loss 2.0\nLabFsError: the lab's own file server went home\n", encoding="utf-8")
    unknown = read_logs([log]).unknown
    assert [one.first.line for one in unknown] == [2]


def test_a_warning_of_a_library_is_none_though_its_class_is_called_an_error(tmp_path: Path) -> None:
    said = "GLFWError: (65544) b'X11: The DISPLAY environment variable is missing'"
    shown = (
        f"/usr/local/lib/python3.7/dist-packages/glfw/__init__.py:906: {said}\n  warnings.warn(message, GLFWError)\n"
    )
    for name, text in (("warned.txt", shown), ("raised.txt", f"{said}\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert [one.warning for one in read_logs([tmp_path / "warned.txt"]).unknown] == [True]
    assert [one.warning for one in read_logs([tmp_path / "raised.txt"]).unknown] == [False]
