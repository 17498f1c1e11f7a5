"""How deep a model is, as far as what is computed in it depends on that."""

from __future__ import annotations

from collections import Counter

from preflight.monitor.views.patterns import pattern_of
from preflight.monitor.window import Run


def layers_of(run: Run) -> str:
    """Whether layers of one name, numbers apart, come several times: then further ones are like those between the first and the last.

    Of a single one nobody knows what a second would take from it.
    """
    known = run.variables.layers
    if known is None:
        counts = Counter(pattern_of(one.name) for one in run.variables.values() if one.kind == "parameter")
        known = run.variables.layers = "several" if max(counts.values(), default=1) > 1 else "one of each"
    return known
