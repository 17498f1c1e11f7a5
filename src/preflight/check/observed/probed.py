"""What rules ask of a probe, the second run with real numbers: how much of what it saw is the script's own."""

from __future__ import annotations

from preflight.check.observed.run import Run
from preflight.vocabulary.finding import Confidence, Evidence
from preflight.vocabulary.probe import Probe
from preflight.vocabulary.profile import Profile

MOVED = 1e-3
"""A prediction has moved when it changes by more than this share of what those that should move change by."""
_DATA = ("missing", "is not here", "data set", "torchvision", "batch", "samples of")
_WEIGHTS = ("not read",)


def probe_of(run: Run) -> Probe | None:
    """Return the probe, or None where there was none or it was left out."""
    probe = run.profile.probe
    return probe if probe is not None and probe.outcome == "done" else None


def invented(probe: Probe) -> bool:
    """Whether data stood in for the script's own."""
    return any(word in line for line in probe.assumptions for word in _DATA)


def from_scratch(probe: Probe) -> bool:
    """Whether the weights are those with which the training begins."""
    return not any(word in line for line in probe.assumptions for word in _WEIGHTS)


def notes_of(profile: Profile) -> list[str]:
    """What a reader has to know of how the probe went."""
    probe = profile.probe
    if probe is None:
        return []
    if probe.outcome == "left out":
        told = "; that may come of what stood in for its own data" if probe.assumptions and invented(probe) else ""
        return [f"no probe with real numbers: {probe.reason}{told}"]
    smaller = f"; made smaller: {', '.join(probe.changed)}" if probe.changed else ""
    return [f"a probe ran {probe.steps} steps with real numbers on the CPU in {probe.seconds:.0f} s{smaller}"]


def sure(probe: Probe, otherwise: Confidence = "likely") -> Confidence:
    """How sure a finding is that hangs on the data."""
    return "possible" if invented(probe) else otherwise


def setting(probe: Probe) -> Evidence:
    """Evidence of how the numbers were obtained."""
    how = "; ".join(probe.changed) or "the script as it is"
    return Evidence("real steps on the CPU", probe.steps, source="measured", arithmetic=how)
