"""Made incidents of many layouts, and real ones of torchrun: who began it, what it was, and what is healthy."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.incident import Incident

SEEDS = range(60)
FAULTS = Path(__file__).parent / "data" / "faults"
# Runs that are only slow, too short for a test that is seldom wrong to see it.
SLOW = {"slow-rank", "slow-loader"}


@pytest.fixture(scope="module")
def incidents() -> Any:
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "investigate" / "incidents.py"
    spec = importlib.util.spec_from_file_location("made_incidents", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["made_incidents"] = module
    spec.loader.exec_module(module)
    return module


def judged(path: Path) -> Incident:
    incident = diagnose(path).incident
    assert incident is not None
    return incident


@pytest.mark.slow
def test_made_incidents_are_judged_rightly(incidents: Any, tmp_path: Path) -> None:
    """Of 60 incidents in six layouts, with skewed clocks, silent ranks and restarts, 54 culprits at least are right."""
    wrong, layouts, categories = [], set(), 0
    for seed in SEEDS:
        folder = tmp_path / str(seed)
        truth = incidents.make(seed, folder)
        incident = judged(folder)
        layouts.add(truth.layout)
        assert (incident.category == "none") == truth.healthy, (seed, truth.name, incident.headline)
        if set(incident.culprit.ranks) != set(truth.culprits):
            wrong.append((seed, truth.name, truth.layout, truth.culprits, incident.culprit.ranks))
        categories += incident.category in truth.categories
    assert len(layouts) == 6
    assert len(wrong) <= 6, wrong
    assert categories >= 54


@pytest.mark.slow
def test_kinds_that_were_told_wrongly_once_are_told_rightly(incidents: Any, tmp_path: Path) -> None:
    wrong = []
    for kind, (_, layouts) in incidents.KINDS.items():
        for seed, layout in enumerate((*layouts, *layouts)):
            folder = tmp_path / f"{kind}-{seed}"
            truth = incidents.make_kind(seed, folder, kind, layout)
            incident = judged(folder)
            assert incident.category != "none", (kind, layout, incident.headline)
            if set(incident.culprit.ranks) != set(truth.culprits):
                wrong.append((kind, layout, seed, truth.culprits, incident.culprit.ranks))
    assert not wrong, wrong


@pytest.mark.slow
def test_clocks_are_found_in_made_incidents(incidents: Any, tmp_path: Path) -> None:
    inside = total = 0
    for seed in SEEDS:
        truth = incidents.make(seed, tmp_path / str(seed))
        if len(truth.offsets) < 2:
            continue
        found = {clock.node: clock for clock in judged(tmp_path / str(seed)).clocks}
        for node, ahead in truth.offsets.items():
            if node in found and found[node].error:
                total += 1
                inside += abs(found[node].ahead - ahead) <= found[node].error + 0.03
    assert total >= 20
    assert inside / total >= 0.9


@pytest.mark.slow
def test_real_incidents_of_torchrun_are_judged_rightly() -> None:
    """Of the real faults with a culprit, all but three are named exactly; what is healthy or recovered is called so."""
    wrong, total = [], 0
    for folder in sorted(FAULTS.iterdir()):
        truth = json.loads((folder / "truth.json").read_text())
        if folder.name in SLOW:
            continue
        incident = judged(folder / "run")
        assert (incident.category == "none") == (truth["category"] == "none"), folder.name
        total += 1
        if set(incident.culprit.ranks) != set(truth.get("culprit") or ()):
            wrong.append((folder.name, truth.get("culprit"), incident.culprit.ranks))
    assert total >= 30
    assert len(wrong) <= 3, wrong
