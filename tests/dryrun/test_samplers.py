"""Loops of libraries that sample are watched as the script's own."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def test_the_loops_of_a_librarys_sampler_ask_for_their_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from preflight.dryrun.virtual import compiling

    text = "def sample(steps):\n    done = []\n    for step in steps:\n        done.append(step)\n    return done\n"
    (tmp_path / "pipeline_noise.py").write_text(text, encoding="utf-8")
    asked: list[int] = []

    def rounds(items: Any, line: int) -> Any:
        asked.append(line)
        return items[:2]

    monkeypatch.setattr(builtins, compiling.HOOK, rounds, raising=False)
    finder = compiling.Finder(lambda name: False)
    assert finder.find_spec("diffusers.models.pipeline_noise", [str(tmp_path)]) is None
    spec = finder.find_spec("diffusers.pipelines.pipeline_noise", [str(tmp_path)])
    assert spec is not None
    assert spec.loader is not None
    names: dict[str, Any] = {}
    exec(spec.loader.get_code("diffusers.pipelines.pipeline_noise"), names)  # type: ignore[attr-defined]
    assert names["sample"]([1, 2, 3, 4]) == [1, 2]
    assert asked == [3]
    assert str(tmp_path / "pipeline_noise.py") in compiling.UNMARKED
