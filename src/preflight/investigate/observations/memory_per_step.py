"""Whether the memory that the steps tell of grows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median_high

from preflight.investigate.culprit.vote import Scene
from preflight.investigate.observations.observation import Observation
from preflight.vocabulary.quantity import format_bytes

_NAMES = ("memory_bytes", "memory_reserved_bytes", "peak_memory_bytes", "cpu_memory_bytes", "rss_bytes")
_LEAST = 12
_SHARE = 0.05


def observe(scene: Scene) -> Iterator[Observation]:
    """Compare the last third of each series with its middle third: warm-up ends in the first."""
    series: dict[tuple[str, int | None], list[tuple[int, float]]] = defaultdict(list)
    for line in scene.case.steps:
        if line.step is not None:
            for name in _NAMES:
                if name in line.values:
                    series[name, line.who.rank].append((line.step, line.values[name]))
    for (name, rank), points in sorted(series.items(), key=lambda one: (one[0][0], one[0][1] or 0)):
        if len(points) < _LEAST:
            continue
        points.sort()
        values = [value for _, value in points]
        third = len(values) // 3
        middle, late = median_high(values[third : 2 * third]), median_high(values[2 * third :])
        whose = f" on rank {rank}" if rank is not None else ""
        host = name in ("cpu_memory_bytes", "rss_bytes")
        if middle > 0 and late > (1 + _SHARE) * middle and _rises(values[third:]):
            text = f"memory grew{whose} from {format_bytes(middle)} to {format_bytes(late)} over the last {points[-1][0] - points[third][0]:,} steps"
            yield Observation(
                text=text,
                odds={"host-out-of-memory": 2.0, "cgroup-limit": 1.5}
                if host
                else {"memory-grows": 3.0, "peak-exceeds-device": -1.0},
            )
            return
        if middle > 0 and late <= 1.01 * middle and not host:
            yield Observation(text=f"memory{whose} did not grow over the steps", odds={"memory-grows": -2.5})
            return


def _rises(values: Sequence[float]) -> bool:
    """Whether most pairs a third apart rise: a single jump is no growth."""
    gap = max(len(values) // 3, 1)
    rising = sum(later > earlier for earlier, later in zip(values, values[gap:], strict=False))
    return rising >= 0.8 * (len(values) - gap)
