"""The roofline of a step, on operators written by hand."""

from __future__ import annotations

import msgspec
import pytest

from preflight.catalog.hardware import load_link, resolve_gpu
from preflight.dryrun.time import HIGH, LOW, MID, seconds_of, step_time, tile_share
from preflight.vocabulary.work import Kind, Work

GPU = resolve_gpu("h100")


def _product(rows: int, columns: int, depth: int, phase: str = "forward") -> Kind:
    moved = 2 * (rows * depth + depth * columns + rows * columns)
    return Kind(
        operator="mm", phase=phase, dtype="bfloat16", flop=2.0 * rows * columns * depth, bytes=moved,
        product=(1, rows, columns, depth),
    )  # fmt: skip


def test_a_last_wave_that_is_nearly_empty_costs_a_whole_one() -> None:
    full = tile_share((1, 256 * 132, 128, 4096), 132)
    more = tile_share((1, 256 * 133, 128, 4096), 132)
    assert full == 1.0
    assert more < 0.8


def test_a_tile_that_is_mostly_empty_is_paid_whole() -> None:
    assert tile_share((1, 65536, 65, 4096), 132) < 0.6 < tile_share((1, 65536, 128, 4096), 132)


def test_a_large_product_runs_at_the_rate_of_products() -> None:
    kind = _product(16384, 16896, 8192)
    assert seconds_of(kind, GPU, LOW) >= kind.flop / GPU.peak_flops["bf16"]  # type: ignore[operator]
    assert seconds_of(kind, GPU, MID) == pytest.approx(
        kind.flop / (MID.products * GPU.achievable_flops["bf16"]), rel=0.05
    )  # type: ignore[operator]


def test_other_operators_move_bytes() -> None:
    kind = Kind(operator="add", phase="forward", dtype="float32", bytes=int(GPU.bandwidth))
    assert seconds_of(kind, GPU, MID) == pytest.approx(1 / MID.bandwidth)


def test_small_kernels_wait_for_the_host() -> None:
    tiny = Work(kinds=(Kind(operator="add", phase="forward", bytes=1024),), order=(0,) * 1000)
    found = step_time(tiny, GPU)
    assert found is not None
    assert found.seconds.mid == pytest.approx(1000 * MID.operator, rel=0.01)
    assert sum(found.mid.busy.values()) < 0.3 * found.seconds.mid


def test_the_queue_runs_empty_where_the_host_waits_for_a_size() -> None:
    large = Kind(operator="add", phase="forward", bytes=int(GPU.bandwidth * 1e-4))
    asked = msgspec.structs.replace(large, operator="nonzero", waits=True)
    # Kernels of 0.1 ms hide what the host does for the next one, unless it has to wait for what they gave.
    hidden, waited = (step_time(Work(kinds=(kind,), order=(0,) * 100), GPU) for kind in (large, asked))
    assert hidden is not None
    assert waited is not None
    assert waited.seconds.mid - hidden.seconds.mid == pytest.approx(99 * MID.operator, rel=0.01)


def test_a_fused_operator_costs_a_part_of_what_it_costs_alone() -> None:
    alone = Kind(operator="silu", phase="forward", bytes=int(GPU.bandwidth * 1e-3))
    fused = msgspec.structs.replace(alone, fused=True)
    for rates in (LOW, MID, HIGH):
        assert seconds_of(fused, GPU, rates) == pytest.approx(rates.fused * seconds_of(alone, GPU, rates))


def test_recomputed_operators_are_work_of_the_hardware_only() -> None:
    kinds = (_product(4096, 4096, 4096), _product(4096, 4096, 4096, "recompute"))
    found = step_time(Work(kinds=kinds, order=(0, 1)), GPU)
    assert found is not None
    assert found.hardware_flop == 2 * found.flop


def test_evaluation_is_no_part_of_a_step() -> None:
    kinds = (_product(4096, 4096, 4096), _product(4096, 4096, 4096, "eval"))
    alone = step_time(Work(kinds=kinds, order=(0,)), GPU)
    both = step_time(Work(kinds=kinds, order=(0, 1)), GPU)
    assert alone is not None
    assert both is not None
    assert alone.seconds == both.seconds


def test_collectives_cost_what_the_link_carries() -> None:
    link = load_link("nvlink_4")
    size = 1 << 30
    kinds = (_product(512, 512, 512, "backward"), Kind(operator="allreduce_", phase="backward", bytes=size, ranks=8))
    with_link = step_time(Work(kinds=kinds, order=(0, 1)), GPU, link)
    without = step_time(Work(kinds=kinds, order=(0, 1)), GPU)
    assert with_link is not None
    assert without is not None
    ring = size * 2 * 7 / 8 / link.bandwidth
    assert with_link.seconds.low > ring
    assert without.seconds.high < ring


def test_nothing_is_said_of_a_step_that_was_not_seen() -> None:
    assert step_time(Work(), GPU) is None


@pytest.mark.parametrize(
    ("dtype", "share"), [("bfloat16", 0.16), ("tf32", 0.35), ("float32", 1.0)], ids=["bf16", "tf32", "fp32"]
)
def test_rows_that_are_not_aligned_slow_tensor_cores(dtype: str, share: float) -> None:
    # 8,192 rows of 768 times so many words on an H200 (benchmarks/gpu/rates.toml): 124 of 792 TFLOP/s in bf16, 119 of 340
    # in TF32, and 49 of 51 in fp32, which no tensor core computes.
    odd, even = (msgspec.structs.replace(_product(8192, words, 768), dtype=dtype) for words in (50257, 50304))
    assert seconds_of(even, GPU, MID) / seconds_of(odd, GPU, MID) == pytest.approx(share, rel=0.02)


@pytest.mark.parametrize(
    ("inside", "outside", "side", "kernel", "forward", "backward"),
    [(256, 256, 32, 3, 174.8e-6, 358.3e-6), (64, 64, 56, 3, 97.8e-6, 221.1e-6), (256, 64, 56, 1, 40.3e-6, 262.4e-6)],
)
def test_convolutions_lie_between_the_ends(
    inside: int, outside: int, side: int, kernel: int, forward: float, backward: float
) -> None:
    # 64 pictures in fp16 on an H200, as measured (benchmarks/gpu/rates.toml).
    gpu, rows, depth = resolve_gpu("h200"), 64 * side * side, inside * kernel * kernel
    moved = 2 * rows * (inside + outside)
    there = Kind(
        operator="convolution", phase="forward", dtype="float16", flop=2.0 * rows * outside * depth, bytes=moved,
        product=(1, rows, outside, depth),
    )  # fmt: skip
    back = Kind(
        operator="convolution_backward", phase="backward", dtype="float16", flop=4.0 * rows * outside * depth,
        bytes=moved + 2 * rows * outside,
    )  # fmt: skip
    assert seconds_of(there, gpu, LOW) <= forward <= seconds_of(there, gpu, HIGH)
    assert seconds_of(back, gpu, LOW) <= backward <= seconds_of(back, gpu, HIGH)
