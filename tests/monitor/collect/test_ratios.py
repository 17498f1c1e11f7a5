"""Which samples a policy has been trained on before."""

from __future__ import annotations

import pytest

from preflight.monitor.collect.ratios import Ratios

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


class _Recorder:
    torch = torch


def test_states_that_come_again_in_one_batch_say_nothing_of_an_earlier_step() -> None:
    ratios = Ratios(_Recorder(), None)  # type: ignore[arg-type]
    assert [ratios._again([1, 2, 3], 0), ratios._again([3, 4, 1], 1)] == [0.0, 2 / 3]
    assert ratios._again([3, 3, 1], 2) == 0.0  # few states, as those of a small grid: fresh samples are in them again
