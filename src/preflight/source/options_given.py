"""Options that a script trains with and that are off by default: they are taken as given where nothing trains else."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from preflight.source.trace import Place, Trace, place_of, provenance
from preflight.source.values import Known, Unknown, Value

if TYPE_CHECKING:
    from preflight.source.training import TrainingLoop

_DEFAULT = "default of "


@dataclass(frozen=True)
class Given:
    """What another reading of a script takes as given.

    Attributes:
        sides: The side that each test takes which keeps training from the path of the defaults.
        options: What the options hold that such a test asks, by how their defaults came about:
            the other side of a switch, and nothing that is known of others.
    """

    sides: dict[Place, bool] = field(default_factory=dict)
    options: dict[str, Value] = field(default_factory=dict)

    def worth(self, value: Value) -> Value:
        """What a value is where the options are given."""
        how = value.how if isinstance(value, Known) and value.soft else None
        return self.options.get(how, value) if how is not None else value

    def joined(self, other: Given) -> Given:
        """Both of them; what was given first stays."""
        return Given(self.sides | other.sides, other.options | self.options)


def options_before_training(trace: Trace, loops: list[TrainingLoop]) -> Given | None:
    """The test that keeps all training from the path of the defaults, as ``if args.train:`` does; None where some is on it.

    Whoever checks such a script trains it with that option, so it is followed there.
    Of several trainings the first counts: the options of the others may exclude each other.
    Every other place that asks the same option is read with it as well: what a test sets up is not to be trained.
    """
    if not loops or trace.exhausted is not None or any(not loop.frame.shadow for loop in loops):
        return None
    outer = [f for f in loops[0].frame.frames() if f.kind == "if" and f.shadow]
    if not outer or not isinstance(outer[-1].node, ast.If) or outer[-1].polarity is None:
        return None
    options = _asked(outer[-1].value)
    if not options:
        return None
    return Given({place_of(outer[-1].script, outer[-1].node): outer[-1].polarity}, options)


def _asked(test: Value | None) -> dict[str, Value]:
    """The options that a test asks, and what they hold where they are given."""
    found: dict[str, Known] = {}
    for part in provenance(test, limit=200):
        # What is computed from a default tells how that came about: the option itself lies deepest, and comes last.
        if isinstance(part, Known) and part.soft and (part.how or "").startswith(_DEFAULT):
            found[str(part.how)] = part
    single = len(found) == 1
    return {how: _other(part, single=single) for how, part in found.items()}


def _other(default: Known, *, single: bool) -> Value:
    """What an option holds that is given: of a switch that alone decides, the other side."""
    label = str(default.how).removeprefix(_DEFAULT)
    if single and isinstance(default.value, bool):
        return Known(not default.value, default.site, f"{label} is given", True, default.parents)
    name = re.findall(r"\w+", label.replace("-", "_"))[-1].strip("_")
    return Unknown(f"{label} is given where the script trains", default.site, default.parents, name=name)
