"""Packages that are not installed: inert until a value of them is needed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from preflight.catalog.hardware import resolve_gpu
from preflight.dryrun.launch import Job, dry_run
from preflight.dryrun.virtual.absent import blame, removed, wanting
from preflight.dryrun.virtual.absent.inert import NotInstalled, Package, compiled
from preflight.dryrun.virtual.absent.packages import Finder

FANCY = Package("fancy")


@pytest.fixture(autouse=True)
def _own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wanting.STATE, "owns", lambda name: name == __file__)
    monkeypatch.setattr(wanting.STATE, "needed", {})
    monkeypatch.setattr(wanting.STATE, "handed", {})


def test_names_calls_and_classes_do_nothing() -> None:
    log = FANCY.deep.logger("x", level=3)
    log.info("step %d", 3)
    log.handlers[0].level = 5
    with FANCY.context() as inner:
        inner.note()
    assert log.handlers is not None

    @FANCY.jit(cache=True)
    def double(x: int) -> int:
        return 2 * x

    class Mine(FANCY.Base):  # type: ignore[misc,name-defined]
        def __init__(self, size: int) -> None:
            super().__init__(size)
            self.size = size

        def __len__(self) -> int:
            return self.size

    assert double(4) == 8
    assert len(Mine(3)) == 3
    assert isinstance(Mine(3), FANCY.Base)
    assert not isinstance(3, FANCY.Base)
    assert issubclass(FANCY.errors.HTTPError, Exception)


@pytest.mark.parametrize(
    "use",
    [bool, int, float, len, iter, str, os.fspath, lambda x: x + 1, lambda x: x == 1, lambda x: isinstance(x, str)],
)
def test_a_value_that_is_needed_names_the_package_and_both_lines(use: Callable[[Any], Any]) -> None:
    value = FANCY.made()
    with pytest.raises(
        ModuleNotFoundError, match=r"'fancy': fancy\.made\(\) of test_inert\.py:\d+ is needed at test_"
    ) as e:
        use(value)
    assert e.value.name == "fancy"


def test_what_is_only_shown_needs_no_value(capsys: pytest.CaptureFixture[str]) -> None:
    print(f"{FANCY.made():.2f} " + FANCY.colored("x"))
    assert "fancy.made(): not installed" in capsys.readouterr().out


def test_a_model_and_its_parameters_are_not_handed_to_what_does_nothing() -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(2, 2)
    for use in (
        lambda: FANCY.Adam(model.parameters()),
        lambda: FANCY.ema(model),
        lambda: FANCY.loss([torch.ones(2)]),
        lambda: setattr(model, "layer", FANCY.Layer(2)),
        lambda: torch.zeros(FANCY.size),
        lambda: torch.add(torch.ones(1), FANCY.size),
        lambda: type("Net", (torch.nn.Module, *FANCY.Layer.__mro_entries__(())), {}),
    ):
        with pytest.raises(ModuleNotFoundError):
            use()
    FANCY.WarmupScheduler(torch.optim.SGD(model.parameters(), lr=1.0))


def test_code_that_a_script_compiles_is_inert_too() -> None:
    torch = pytest.importorskip("torch")
    fused = compiled("fused", sources=["fused.cu"])
    assert fused.forward is not None
    with pytest.raises(RuntimeError, match=r"fused is C.. or CUDA code that the script compiles"):
        fused.forward(torch.ones(1))


def test_an_error_of_c_code_is_the_package_s() -> None:
    value = NotInstalled("fancy.made()", "train.py:3")
    with pytest.raises(TypeError) as raised:
        json.dumps({"value": value})
    assert blame.blamed(raised.value).name == "fancy"  # type: ignore[attr-defined]
    plain = ValueError("no")
    assert blame.blamed(plain) is plain


def test_who_guards_an_import_sees_that_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "inner.py": "import zyx_absent\n",
        "guarded.py": "try:\n    import inner\nexcept ImportError:\n    inner = None\n",
        "later.py": "def run():\n    import zyx_absent\n    return zyx_absent\ntry:\n    got = run()\nexcept ValueError:\n    pass\n",
        "named.py": "import later\ntry:\n    got = later.run()\nexcept ImportError:\n    got = None\n",
        "star.py": "from zyx_absent import *\n",
        "old.py": "import cPickle\n",
        "settings.py": "import tyro_absent, gin\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    said: list[str] = []
    finder = Finder(lambda name: name.startswith(str(tmp_path)), said.append, str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, finder])
    names = ("inner", "guarded", "later", "named", "zyx_absent", "tyro_absent")
    import guarded  # type: ignore[import-not-found]

    assert guarded.inner is None
    for name in ("star", "old", "settings"):
        with pytest.raises(ModuleNotFoundError):
            __import__(name)
    assert not any("zyx" in line for line in said)
    import later  # type: ignore[import-not-found]

    assert isinstance(later.got, Package)
    assert any("zyx_absent is not installed: what it returns is not used" in line for line in said)
    sys.modules.pop("zyx_absent")
    import named  # type: ignore[import-not-found]

    assert named.got is None
    for name in names:
        sys.modules.pop(name, None)


def test_names_that_are_gone_have_a_hint(tmp_path: Path) -> None:
    (tmp_path / "dataset.py").touch()
    assert removed.hint("ModuleNotFoundError", "No module named 'ruamel_yaml'") == "pip install ruamel.yaml"
    assert "queue" in (removed.hint("ModuleNotFoundError", "No module named 'Queue'") or "")
    assert "from .dataset" in (removed.hint("ModuleNotFoundError", "No module named 'dataset'", str(tmp_path)) or "")
    assert "LANCZOS" in (removed.hint("AttributeError", "module 'PIL.Image' has no attribute 'ANTIALIAS'") or "")
    assert removed.hint("ModuleNotFoundError", "No module named 'basicsr.version'") is None
    assert removed.hint("ValueError", "something else") is None


@pytest.mark.torch
def test_a_run_whose_training_was_handed_to_a_package_names_it(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text("import torch\nimport zyx_absent\ndef main(rank):\n    pass\nzyx_absent.spawn(main, nprocs=2)\n")
    gpu = resolve_gpu("a100-80gb")
    seen = dry_run(Job(script=str(script), root=str(tmp_path), gpu=gpu, capacity_bytes=80 << 30, seconds=100))
    assert (seen.outcome, seen.error, seen.hint) == ("failed", "ModuleNotFoundError", "pip install zyx_absent")
    assert "zyx_absent.spawn() was handed main" in (seen.message or "")


@pytest.mark.torch
def test_an_error_that_a_launcher_prints_before_it_leaves_is_the_finding(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text(
        "import sys\ndef main():\n    import torch._six\ntry:\n    main()\nexcept Exception as error:\n"
        "    print(error)\n    sys.exit(1)\n"
    )
    gpu = resolve_gpu("a100-80gb")
    seen = dry_run(Job(script=str(script), root=str(tmp_path), gpu=gpu, capacity_bytes=80 << 30, seconds=100))
    assert (seen.outcome, seen.error, seen.frames[-1].line) == ("failed", "ModuleNotFoundError", 3)
    assert "PyTorch 2.0 removed torch._six" in (seen.hint or "")
