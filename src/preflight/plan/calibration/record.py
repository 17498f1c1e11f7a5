"""A calibration as a value: coefficients, what they were fitted on, how far off they were, and how far they reach."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from preflight.cost.machine import Coefficients
from preflight.errors import UsageError
from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec

if TYPE_CHECKING:
    from preflight.plan.calibration.sample import Sample

SCHEMA = "preflight.calibration/1"
# With fewer rows a calibration's own residuals say too little about its error.
ENOUGH_ROWS = 20


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """What a calibration has seen: the hull of its rows, one range for each quantity, and the models among them.

    Attributes:
        shapes: (layers, width) of every model; empty in calibrations of before.
    """

    gpus: tuple[float, float]
    nodes: tuple[float, float]
    tensor: tuple[float, float]
    pipeline: tuple[float, float]
    hidden: tuple[float, float]
    tokens: tuple[float, float]
    shapes: tuple[tuple[float, float], ...] = ()


class MemoryFit(msgspec.Struct, frozen=True, kw_only=True):
    """What measured runs of a model hold.

    Attributes:
        shape: (layers, width) of the model.
        rows: How many runs.
        activations: Their activations over what the formula says.
        held: What the allocator holds beside what it has handed out, as a share of that; None where it was not told.
    """

    shape: tuple[float, float]
    rows: int
    activations: float
    held: float | None = None


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """Coefficients with their origin.

    Attributes:
        gpus: Keys of the GPUs that the rows ran on.
        rows: How many rows. fitted_on: Where they came from.
        low: Lower end of measured over predicted, as a logarithm, over rows left out of the fit; None with few rows.
        high: The upper end.
        error: Median absolute relative error over rows left out of the fit.
        reach: What the rows cover; outside, a prediction is an extrapolation. None without rows.
        memory: What was measured of memory, by model.
    """

    schema: str = SCHEMA
    coefficients: Coefficients
    gpus: tuple[str, ...]
    rows: int
    fitted_on: tuple[str, ...]
    reach: Reach | None = None
    low: float | None = None
    high: float | None = None
    error: float | None = None
    memory: tuple[MemoryFit, ...] = ()

    @property
    def own(self) -> tuple[float, float] | None:
        """The ends of its own residuals, where it has enough rows to know them."""
        return (self.low, self.high) if self.low is not None and self.high is not None else None

    def with_memory(self, model: ModelSpec, run: RunSpec) -> RunSpec | None:
        """Return the run with what was measured of the memory of its model; None where nothing was."""
        for one in self.memory:
            if one.shape == shape_of(model):
                return msgspec.structs.replace(run, activation_factor=one.activations, held_share=one.held)
        return None

    def standing(self, model: ModelSpec, run: RunSpec, parallel: ParallelDims, cluster: Cluster) -> str | None:
        """Return whether a run lies ``inside`` what was seen, ``beyond`` it, or was calibrated on ``few`` rows.

        ``other`` is a model that was not among those seen, though its measures lie within theirs. None where no step was seen, only rates: then the error is that of the catalog.
        """
        if self.reach is None:
            return None
        seen = features(model, run, parallel, cluster)
        if cluster.gpu.name not in self.gpus:
            return "beyond"
        for name, value in seen.items():
            low, high = getattr(self.reach, name)
            # A factor of two beyond the rows is still their neighbourhood.
            if not low / 2 <= value <= high * 2:
                return "beyond"
        if self.rows < ENOUGH_ROWS:
            return "few"
        return "inside" if not self.reach.shapes or shape_of(model) in self.reach.shapes else "other"


def shape_of(model: ModelSpec) -> tuple[float, float]:
    """Return layers and width of a model."""
    return float(model.layers or 0), float(model.hidden or 0)


def features(model: ModelSpec, run: RunSpec, parallel: ParallelDims, cluster: Cluster) -> dict[str, float]:
    """Return the quantities by which a calibration's reach is told."""
    return {
        "gpus": float(parallel.world_size),
        "nodes": float(-(-parallel.world_size // cluster.gpus_per_node)),
        "tensor": float(parallel.tp),
        "pipeline": float(parallel.pp),
        "hidden": float(model.hidden or 1),
        "tokens": float((run.micro_batch or 1) * (run.sequence_length or 1)),
    }


def reach_of(samples: tuple[Sample, ...]) -> Reach:
    """Return the hull of samples."""
    seen = [features(one.model, one.run, one.parallel, one.cluster) for one in samples]
    ranges = {name: (min(one[name] for one in seen), max(one[name] for one in seen)) for name in seen[0]}
    return Reach(**ranges, shapes=tuple(sorted({shape_of(one.model) for one in samples})))


def save(calibration: Calibration, path: str) -> None:
    """Write a calibration as JSON."""
    text = msgspec.json.format(msgspec.json.encode(calibration), indent=2)
    with open(path, "wb") as stream:
        stream.write(text + b"\n")


def load(path: str) -> Calibration:
    """Return the calibration in a file.

    Raises:
        UsageError: There is no such file, or it is no calibration.
    """
    if not os.path.isfile(path):
        raise UsageError(f"no calibration file {path}", "write one with: preflight plan calibrate ROWS -o FILE.json")
    with open(path, "rb") as stream:
        data: Any = stream.read()
    try:
        found = msgspec.json.decode(data, type=Calibration)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"{path} is no calibration: {error}", "preflight plan calibrate writes them") from None
    if found.schema != SCHEMA:
        raise UsageError(f"{path} has the schema {found.schema!r}", f"this version reads {SCHEMA}")
    return found
