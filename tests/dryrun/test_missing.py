"""What stands in for what is missing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from preflight.dryrun.configurations import named
from preflight.dryrun.virtual.absent.packages import Finder
from preflight.dryrun.virtual.absent.recorders import Recorder
from preflight.errors import InputError


def test_a_recorder_takes_everything_and_gives_back_what_it_decorates() -> None:
    run = Recorder("tracker")
    run.log({"loss": 1.0})["again"].done = True
    assert run.watch(len) is len
    assert list(run) == []
    assert f"{run.name}" == "tracker.name"
    # A measure that was not taken is printed, summed and compared as a number.
    assert (f"{run.value:.2f}", run.value + 1.5, run.value > 0) == ("0.00", 1.5, False)


def test_a_package_that_the_script_can_do_without_stays_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needs.py").write_text("import comet_ml\n")
    (tmp_path / "can_do_without.py").write_text("try:\n    import comet_ml\nexcept ImportError:\n    comet_ml = None\n")
    said: list[str] = []
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(
        sys,
        "meta_path",
        [*sys.meta_path, Finder(lambda name: name.startswith(str(tmp_path)), said.append, str(tmp_path))],
    )
    import can_do_without  # type: ignore[import-not-found]

    assert can_do_without.comet_ml is None
    assert said == []
    import needs  # type: ignore[import-not-found]

    needs.comet_ml.Experiment().log_metric("loss", 1.0)
    assert said == ["package comet_ml is not installed: its calls did nothing"]
    for name in ("needs", "can_do_without", "comet_ml"):
        del sys.modules[name]


def test_a_module_is_met_also_after_it_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    from preflight.dryrun.virtual.absent import after

    (tmp_path / "asked_for.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    seen: list[str] = []
    after.imported("asked_for", lambda module: seen.append(module.__name__))
    assert importlib.util.find_spec("asked_for") is not None
    assert seen == []
    import asked_for  # type: ignore[import-not-found]

    assert (seen, asked_for.value) == (["asked_for"], 1)
    del sys.modules["asked_for"]


def test_configurations_come_from_the_catalog_and_from_what_the_person_names(tmp_path: Path) -> None:
    script, own = tmp_path / "train.py", tmp_path / "own.json"
    script.write_text('AutoModel.from_pretrained("bert-base-cased")\n')
    own.write_text(json.dumps({"model_type": "gpt2", "n_layer": 2}))
    found = named(str(script), ("--model", "Qwen/Qwen2-0.5B"), {"our/model": str(own)})
    assert found["bert-base-cased"]["num_hidden_layers"] == 12
    assert found["Qwen/Qwen2-0.5B"]["model_type"] == "qwen2"
    assert found["our/model"]["n_layer"] == 2


def test_a_configuration_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.json"):
        named(str(tmp_path / "train.py"), (), {"our/model": str(tmp_path / "none.json")})
