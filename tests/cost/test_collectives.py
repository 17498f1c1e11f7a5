"""Collectives against measured curves, and what holds for any group."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.catalog.hardware import load_link, resolve_gpu
from preflight.cost.collectives import Group, all_reduce, exchange, fabric_rate, gather
from preflight.cost.machine import Machine, machine_of
from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.run import RunSpec

MIB, GIB = 2.0**20, 2.0**30


def _machine(gpu: str, link: str, gpus: int = 8, inter: str | None = None) -> Machine:
    cluster = Cluster(
        gpu=resolve_gpu(gpu), num_gpus=gpus, intra=load_link(link), inter=load_link(inter) if inter else None
    )
    found = machine_of(cluster, RunSpec(precision="bf16"))
    assert found is not None
    return found


def _bus(machine: Machine, ranks: int, size: float) -> float:
    """Return GB/s of a bus as nccl-tests reckon it."""
    return 2 * (ranks - 1) / ranks * size / all_reduce(machine, Group(size=ranks), size) / 1e9


# stas00/ml-engineering@744d01e, network/README.md: all_reduce_bench.py, GB/s of a bus.
H200 = [(16, 219.89), (64, 346.51), (256, 436.15), (1024, 463.58), (4096, 473.10), (16384, 482.26)]
B200 = [(16, 254.96), (64, 400.60), (256, 646.11), (1024, 723.34), (4096, 740.64), (16384, 845.67)]
B200_FOUR_NODES = [(16, 64.43), (64, 156.74), (256, 229.09), (1024, 361.99), (4096, 377.34), (16384, 381.80)]
# VIA-Research/vTrain, trace/a100: nccl-tests on NVLink 3, out of place.
A100 = {2: [(24, 142.61), (96, 175.98), (288, 186.09)], 4: [(24, 171.46), (96, 197.97), (288, 211.73)],
        8: [(24, 166.01), (96, 212.63), (288, 221.99)]}  # fmt: skip


@pytest.mark.parametrize(
    ("machine", "ranks", "curve"),
    [
        (_machine("H200", "nvlink_4"), 8, H200),
        (_machine("B200", "nvlink_5"), 8, B200),
        (_machine("B200", "nvlink_5", 32, "efa_v4"), 32, B200_FOUR_NODES),
        *[(_machine("A100-80GB", "nvlink_3"), ranks, curve) for ranks, curve in A100.items()],
    ],
)
def test_measured_curves(machine: Machine, ranks: int, curve: list[tuple[int, float]]) -> None:
    errors = [abs(_bus(machine, ranks, size * MIB) / measured - 1) for size, measured in curve]
    assert sum(errors) / len(errors) < 0.16
    assert max(errors) < 0.4


def test_two_of_eight_meshed_gpus_have_one_link() -> None:
    # 47.7 GB/s between two MI300X and 313 among eight were measured.
    machine = _machine("MI300X", "xgmi_mi300x")
    assert fabric_rate(machine, 2.0) / 1e9 == pytest.approx(47.7, rel=0.1)
    assert fabric_rate(machine, 8.0) / 1e9 == pytest.approx(313, rel=0.15)


def test_switches_add_up_from_five_h200_on() -> None:
    machine = _machine("H200", "nvlink_4")
    assert _bus(machine, 5, 4 * GIB) > 1.2 * _bus(machine, 4, 4 * GIB)
    gathered = 7 / 8 * 4 * GIB / gather(machine, Group(size=8), 4 * GIB) / 1e9
    assert gathered == pytest.approx(361, rel=0.07)


@given(size=st.floats(1e3, 1e11), ranks=st.sampled_from([2, 4, 8, 16, 64, 512]), stride=st.sampled_from([1, 2, 8, 64]))
def test_more_bytes_never_take_less(size: float, ranks: int, stride: int) -> None:
    machine = _machine("H100", "nvlink_4", 4096, "ib_ndr")
    group = Group(size=ranks, stride=stride)
    for collective in (all_reduce, gather, exchange):
        assert 0 < collective(machine, group, size) <= collective(machine, group, 2 * size)
    assert gather(machine, group, size) < all_reduce(machine, group, size)


def test_alone_there_is_nothing_to_say() -> None:
    machine = _machine("H100", "nvlink_4")
    assert all_reduce(machine, Group(size=1), 1e9) == 0.0
