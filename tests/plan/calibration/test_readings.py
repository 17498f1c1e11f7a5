"""A micro-benchmark's file moves the coefficients that it measured, and a file that is none is refused."""

from __future__ import annotations

import msgspec
import pytest

from preflight.cost.machine import Coefficients
from preflight.errors import UsageError
from preflight.plan.calibration.readings import SCHEMA, Kernel, Readings, coefficients_from, read_readings


def _file(*kernels: Kernel) -> bytes:
    return msgspec.json.encode(Readings(schema=SCHEMA, gpu="NVIDIA H100 80GB HBM3", kernels=kernels))


def test_a_slower_gpu_has_smaller_shares() -> None:
    # 2 x 8192^3 FLOP in 2.2 ms are 500 TFLOP/s, of which an H100 usually reaches 715; a copy of 2 GiB in 1 ms is
    # 2.1 TB/s, of which it usually reaches 2.7; 12 us for an operator, usually 6.3.
    data = _file(
        Kernel(kind="matmul", rows=8192, columns=8192, inner=8192, seconds=2.2e-3),
        Kernel(kind="copy", dtype="fp32", bytes=2.0**31, seconds=1.02e-3),
        Kernel(kind="launch", dtype="fp32", seconds=12e-6),
    )
    gpu, found = coefficients_from(read_readings(data, "readings.json"))
    start = Coefficients()
    assert gpu.name == "h100_sxm"
    assert 0.65 < found.matmul < 0.8
    assert 0.63 < found.bandwidth < 0.7
    assert found.host == pytest.approx(12e-6 / 0.7, rel=0.05)
    assert found.attention == start.attention
    assert found.network == start.network


def test_small_products_say_nothing_of_the_rate() -> None:
    data = _file(Kernel(kind="matmul", rows=64, columns=64, inner=64, seconds=1e-3))
    assert coefficients_from(read_readings(data, "readings.json"))[1] == Coefficients()


def test_another_file_is_refused() -> None:
    with pytest.raises(UsageError, match="no file of the micro-benchmark"):
        read_readings(b'{"schema": "preflight.microbenchmark/1"}', "other.json")
    with pytest.raises(UsageError, match="schema"):
        read_readings(msgspec.json.encode(Readings(schema="x/9", gpu="H100", kernels=())), "other.json")
