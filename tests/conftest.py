"""What all tests share: tests that must not be skipped, and where the repository is."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import hypothesis
import pytest

# How long a machine takes to draw or to run an example says nothing of what is tested.
hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any machine")

REQUIRED = tuple(name for name in os.environ.get("PREFLIGHT_REQUIRE", "").split(",") if name)
"""Markers whose tests have to run: a skipped one, or none at all, fails the run. Set in continuous integration."""
HARDWARE = ("cuda",)
"""Markers of tests that need a device: where it is absent they may be skipped, unless they are required by this name."""


LIVE = (
    *(f"investigate/{part}" for part in ("bisect", "doctor", "hang", "liveness", "probes", "topology", "triage")),
    "investigate/test_follow.py", "cli/ui", "cli/test_lsp.py", "cli/test_sbatch.py", "integrations", "test_story.py",
    "monitor/test_api.py", "monitor/test_follow.py", "monitor/test_run.py",
    "monitor/live", "monitor/collect", "monitor/learn/test_spread.py", "source/logs/test_spread.py", "report/test_pages_browser.py",
    "dryrun/test_limits.py", "dryrun/test_server.py",
)  # fmt: skip
"""Tests that wait for other processes. On a machine that does other things, too, one of a thousand fails by chance:
in continuous integration it is run once more, and named (RERUN) where it passes then."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let live tests have a second chance where nobody sits before the screen."""
    if not os.environ.get("CI") or importlib.util.find_spec("pytest_rerunfailures") is None:
        return
    here = Path(__file__).parent
    for item in items:
        place = item.path.relative_to(here).as_posix() if item.path.is_relative_to(here) else ""
        if any(place == live or place.startswith(f"{live}/") for live in LIVE):
            # Not for all tests: of each that may be run again the workers talk to the controller, which takes its time.
            item.add_marker(pytest.mark.flaky(reruns=1, reruns_delay=2))


@pytest.fixture(scope="session")
def repository() -> Path:
    return Path(__file__).resolve().parent.parent


CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
QUIET = ("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-sync")


@pytest.fixture(scope="session")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], str]:
    """A function that opens a page in headless Chromium, offline, and returns the DOM after its scripts.

    Chromium does not start as root with its sandbox; the pages are our own.
    """
    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        pytest.skip("Chromium is not installed")

    def open_page(page: Path) -> str:
        profile = tmp_path_factory.mktemp("chromium")
        command = [program, "--headless", "--no-sandbox", *QUIET, f"--user-data-dir={profile}", "--dump-dom"]
        command += ["--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=5000", page.resolve().as_uri()]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout

    return open_page


class _Placeholder(type):
    """A class whose attributes are names: enough for what timm does with torchvision's while it is imported."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return f"{cls.__name__}.{name}"


class _TorchvisionStandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Lets timm be imported where torchvision is not installed; nothing of it can be used."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        mine = fullname.partition(".")[0] == "torchvision"
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True) if mine else None

    def exec_module(self, module: ModuleType) -> None:
        import torch

        def attribute(name: str) -> type:
            if name.startswith("__"):
                raise AttributeError(name)
            return _Placeholder(name, (torch.nn.Module,), {})

        module.__getattr__ = attribute  # type: ignore[method-assign]


@pytest.fixture(scope="session")
def timm() -> Any:
    """The library timm. Its models need no torchvision; importing it does, and gets a stand-in for that long."""
    pytest.importorskip("torch")
    if importlib.util.find_spec("timm") is None:
        pytest.skip("timm is not installed")
    if importlib.util.find_spec("torchvision") is not None:
        return importlib.import_module("timm")
    stand_in = _TorchvisionStandIn()
    sys.meta_path.append(stand_in)
    try:
        return importlib.import_module("timm")
    finally:
        sys.meta_path.remove(stand_in)
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]


def unmet(passed: list[pytest.TestReport], skipped: list[pytest.TestReport | pytest.CollectReport]) -> list[str]:
    """Say which required tests did not run, one line each.

    A module that skips itself while it is collected has no markers; its reason is read for the name instead.
    """
    lines = []
    for marker in REQUIRED:
        excused = [device for device in HARDWARE if device not in REQUIRED]
        lines += [
            f"required by PREFLIGHT_REQUIRE={marker}, but skipped: {report.nodeid}"
            for report in skipped
            if marker in (report.keywords if isinstance(report, pytest.TestReport) else str(report.longrepr))
            and not any(device in getattr(report, "keywords", ()) for device in excused)
        ]
        if not any(marker in report.keywords for report in passed):
            lines.append(f"required by PREFLIGHT_REQUIRE={marker}, but no such test passed")
    return lines


def _unmet_in(config: pytest.Config) -> list[str]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if not REQUIRED or reporter is None or hasattr(config, "workerinput") or config.option.collectonly:
        return []
    return unmet(reporter.stats.get("passed", []), reporter.stats.get("skipped", []))


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.exitstatus == pytest.ExitCode.OK and _unmet_in(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in _unmet_in(terminalreporter.config):
        terminalreporter.write_line(line, red=True)
