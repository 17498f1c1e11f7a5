"""Every private name of PyTorch that the virtual GPU rests on is still where it was."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from preflight.catalog.hardware import resolve_gpu  # noqa: E402
from preflight.dryrun.launch import Job, _usable, dry_run  # noqa: E402
from preflight.dryrun.virtual import private_names  # noqa: E402
from preflight.dryrun.virtual.engine import attention, autocast  # noqa: E402
from preflight.errors import UsageError  # noqa: E402
from preflight.vocabulary.profile import Profile  # noqa: E402


def test_nothing_has_moved() -> None:
    moved = private_names.moved(torch.__version__)
    assert not moved, f"PyTorch {torch.__version__}: " + "; ".join(f"{name} is {how}" for name, how in moved.items())


def test_what_every_run_needs_was_in_every_release() -> None:
    assert {name: seen for name, seen in private_names.NEEDED.items() if seen != private_names.ALL} == {}
    known = set(private_names.TRIED)
    assert {name for name, seen in private_names.SOME.items() if not set(seen.split()) <= known} == set()


def test_a_name_that_is_gone_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = "torch._C._no_such_function"
    monkeypatch.setitem(private_names.NEEDED, gone, private_names.ALL)
    assert private_names.missing() == [gone]
    newest = private_names.TRIED[-1]
    assert private_names.moved("99.0")[gone] == f"gone since {newest}"
    assert private_names.moved(f"{newest}.5+cu130")[gone] == f"gone since {newest}"


def test_a_name_that_came_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(private_names.SOME, "torch.nn.Module", "2.4")
    assert private_names.moved("99.0")["torch.nn.Module"].startswith("new since")


@pytest.mark.parametrize(
    ("version", "release"), [("2.4.1+cu121", (2, 4)), ("2.10.0", (2, 10)), ("2.16.0a0+git1", (2, 16))]
)
def test_releases_are_compared_by_number(version: str, release: tuple[int, int]) -> None:
    assert private_names.release(version) == release


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("2.3.1+cu121", f"needs PyTorch {private_names.OLDEST} or newer"),
        ("99.0", "does not work with PyTorch 99.0"),
    ],
)
def test_a_release_that_cannot_do_it_is_named(tmp_path: Path, version: str, said: str) -> None:
    package = tmp_path / "packages" / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"__version__ = {version!r}", encoding="utf-8")
    gpu = resolve_gpu("h100")
    job = Job(
        script=__file__, root=str(tmp_path), gpu=gpu, capacity_bytes=gpu.memory_bytes,
        environment={"PYTHONPATH": str(package.parent)},
    )  # fmt: skip
    with pytest.raises(UsageError, match=said):
        dry_run(job)


def test_an_interpreter_that_is_too_old_is_named() -> None:
    with pytest.raises(UsageError, match=r"needs Python 3\.10 or newer; python3 is 3\.9\.18"):
        _usable(Profile(outcome="python too old", python="3.9.18"), "python3")


def _kind(name: str) -> str:
    if name in autocast.REFUSED:
        return "refused"
    if name in autocast.FULL_RESULT:
        return "full result"
    if name in autocast.FULL:
        return "full"
    return "widest" if name in autocast.WIDEST else "lower"


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The operators that PyTorch's own tests of autocast on CUDA go through."""
    common: Any = ModuleType(
        "torch.testing._internal.common_utils"
    )  # the true one asks for packages of PyTorch's tests
    common.TestCase, common.TEST_WITH_ROCM = object, False
    monkeypatch.setitem(sys.modules, "torch.testing._internal.common_utils", common)
    monkeypatch.delitem(sys.modules, "torch.testing._internal.autocast_test_lists", raising=False)
    found = importlib.import_module("torch.testing._internal.autocast_test_lists")
    monkeypatch.delitem(sys.modules, "torch.testing._internal.autocast_test_lists")
    return found.AutocastTestLists(torch.device("cpu"))


def _names(entries: Any) -> set[str]:
    """Return the listed operators that have a kernel for CUDA's autocast; others are compositions of them."""
    key = "AutocastCUDA"
    everything = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    own = {n for n in everything if torch._C._dispatch_has_kernel_for_dispatch_key(n, key)}
    return {entry[0] for entry in entries} & {name[len("aten::") :].partition(".")[0] for name in own}


def test_autocast_lowers_what_pytorchs_own_tests_expect(lists: Any) -> None:
    names = _names(lists.torch_fp16) | _names(lists.nn_fp16)
    assert len(names) > 10
    assert {name: _kind(name) for name in names} == dict.fromkeys(names, "lower")


def test_autocast_raises_what_pytorchs_own_tests_expect(lists: Any) -> None:
    names = _names(lists.torch_fp32) | _names(lists.nn_fp32)
    assert len(names) > 10
    kinds = {name: _kind(name) for name in names}
    assert {name: kind for name, kind in kinds.items() if kind not in ("full", "full result")} == {}


def test_autocast_widens_what_pytorchs_own_tests_expect(lists: Any) -> None:
    names = _names(lists.torch_need_autocast_promote)
    assert len(names) > 3
    assert {name: _kind(name) for name in names} == dict.fromkeys(names, "widest")


def test_whole_operators_are_those_that_have_a_derivative_of_their_own() -> None:
    for name in attention.WHOLE:
        if hasattr(torch.ops.aten, name):
            for key in ("CompositeImplicitAutograd", "Autograd"):
                assert torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", key), (name, key)
