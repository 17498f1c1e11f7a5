"""A search: its space is whole, its numbers are a direct plan's, its best is a brute force's."""

from __future__ import annotations

import itertools
import subprocess
import sys

import msgspec
import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.catalog.hardware import load_link, resolve_gpu
from preflight.errors import UsageError
from preflight.plan.candidate import candidate
from preflight.plan.choose import chosen_of, settings_of
from preflight.plan.columns.pool import Pool
from preflight.plan.columns.search import Found, search
from preflight.plan.columns.space import blocks_of, divisors, families_of
from preflight.plan.constraint import Layout, violated
from preflight.plan.evaluate import evaluate
from preflight.plan.make import plan_report
from preflight.plan.request import Request, Wish
from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import RunSpec

pytestmark = pytest.mark.slow

_MODEL = ModelSpec(
    family="transformer_decoder", layers=12, hidden=1536, heads=12, ffn=4096, gated=True, activation="silu",
    norm="rmsnorm", bias=False, vocab=32000, tied_embeddings=False,
)  # fmt: skip


def _request(
    gpus: int = 8, batch: int | None = 24, model: ModelSpec = _MODEL, gpu: str = "a100-40gb", **wish: object
) -> Request:
    run = RunSpec(global_batch=batch, sequence_length=2048, precision="bf16", optimizer="adamw", foreach=False)
    cluster = Cluster(
        gpu=resolve_gpu(gpu), num_gpus=gpus, gpus_per_node=4, intra=load_link("nvlink_3"), inter=load_link("ib_hdr")
    )
    return Request(model=model, run=run, cluster=cluster, wish=Wish(**wish), search=True)  # type: ignore[arg-type]


def _rows(request: Request, found: Found) -> list[tuple[float, float, Layout]]:
    rows = []
    for row in found.pool.table:
        parallel, run = settings_of(request, found.variants[int(row[2])], row[3:])
        rows.append((row[0], row[1], Layout(model=request.model, run=run, parallel=parallel, cluster=request.cluster)))
    return rows


@given(number=st.integers(1, 5000))
@settings(max_examples=50, deadline=None)
def test_divisors_are_all_of_them(number: int) -> None:
    assert divisors(number) == [value for value in range(1, number + 1) if number % value == 0]


@given(gpus=st.sampled_from([1, 2, 6, 8, 12, 16]), batch=st.sampled_from([8, 12, 24, 30]))
@settings(max_examples=8, deadline=None)
def test_degrees_multiply_to_the_gpus_and_nothing_violates(gpus: int, batch: int) -> None:
    request = _request(gpus, batch)
    found = search(request, keep=200)
    for _, _, layout in _rows(request, found):
        assert layout.parallel.world_size == gpus
        assert violated(layout, ("impossible", "unwise")) is None
        assert batch % (layout.data * layout.run.micro_batch) == 0


@given(seed=st.integers(0, 10_000), gpus=st.sampled_from([4, 8, 12]), framework=st.sampled_from(["megatron", "fsdp2"]))
@settings(max_examples=6, deadline=None)
def test_numbers_are_those_of_a_direct_plan(seed: int, gpus: int, framework: str) -> None:
    request = _request(gpus, framework=framework)
    rows = _rows(request, search(request, keep=300))
    seconds, device, layout = rows[seed % len(rows)]
    one = candidate(request, layout.parallel, layout.run)
    assert one.step is not None
    assert one.memory.device_bytes is not None
    # A single layout has the bubble of its simulated schedule, a search the closed form of it.
    exact = 1e-9 if layout.parallel.pp == 1 else 0.03
    assert seconds * 24 == pytest.approx(one.step.seconds.mid, rel=exact)
    # A plan of one layout adds at least half a segment for the allocator.
    assert device == pytest.approx(one.memory.device_bytes.mid, rel=0.01)


def test_a_brute_force_over_single_layouts_finds_no_better() -> None:
    request = _request(4, 8, framework="fsdp2")
    found = search(request, keep=10**6)
    best, count = float("inf"), 0
    for variant in found.variants:
        for block in blocks_of(request, variant.family, variant.partial):
            high, wide = block.shape
            for row, column in itertools.product(range(high), range(wide)):
                parallel, run = settings_of(request, variant, block.table([row], [column])[0])
                layout = Layout(model=request.model, run=run, parallel=parallel, cluster=request.cluster)
                if violated(layout, ("impossible", "unwise")):
                    continue
                count += 1
                known = evaluate(request.model, run, parallel, request.cluster)
                assert known.step is not None
                best = min(best, known.step.total)
    assert count == found.searched
    assert found.pool.table[0, 0] * 8 == pytest.approx(best, rel=1e-9)


@given(
    axis=st.sampled_from(["tensor_parallel", "pipeline_parallel", "data_parallel"]), degree=st.sampled_from([1, 2, 4])
)
@settings(max_examples=5, deadline=None)
def test_a_larger_space_is_never_slower(axis: str, degree: int) -> None:
    free = search(_request(framework="megatron"), keep=10)
    fixed = search(_request(framework="megatron", **{axis: degree}), keep=10)
    assert fixed.searched < free.searched
    assert free.pool.table[0, 0] <= fixed.pool.table[0, 0] * (1 + 1e-9)


def test_what_is_fixed_stays_fixed() -> None:
    request = msgspec.structs.replace(
        _request(tensor_parallel=2, framework="megatron", zero_stage=1),
        fixed=frozenset(("recompute", "cross_entropy", "micro_batch")),
    )
    request = msgspec.structs.replace(
        request, run=msgspec.structs.replace(request.run, micro_batch=3, recompute="full")
    )
    found = search(request)
    layouts = [layout for _, _, layout in _rows(request, found)]
    assert layouts
    assert {(one.parallel.tp, one.parallel.framework, one.parallel.zero_stage) for one in layouts} == {
        (2, "megatron", 1)
    }
    assert {(one.run.micro_batch, one.run.recompute, one.run.cross_entropy) for one in layouts} == {
        (3, "full", "eager")
    }


def test_no_shown_layout_is_beaten_by_another_and_all_fit() -> None:
    request = _request()
    chosen = chosen_of(request, search(request))
    assert all(one.memory.fits == "yes" for one in (*chosen.best, *chosen.pareto))
    times = [one.step.seconds.mid for one in chosen.best if one.step]
    assert times == sorted(times)
    front = [
        (one.step.seconds.mid, one.memory.device_bytes.mid)
        for one in chosen.pareto
        if one.step and one.memory.device_bytes
    ]
    assert front == sorted(front)
    assert [size for _, size in front] == sorted((size for _, size in front), reverse=True)
    assert chosen.pareto[0].parallel == chosen.best[0].parallel


def test_every_layout_is_either_evaluated_or_ruled_out() -> None:
    request = _request()
    found = search(request)
    all_ = sum(
        sum(v.family == family and v.partial == partial for v in found.variants) * high * wide
        for family in families_of(request)
        for partial in (False, True)
        for high, wide in (block.shape for block in blocks_of(request, family, partial))
    )
    assert found.searched + sum(ruled.count for ruled in found.ruled.values()) == all_


def test_nothing_fits_says_what_comes_closest() -> None:
    huge = msgspec.structs.replace(_MODEL, layers=96, hidden=24576, heads=192, ffn=65536)
    report = plan_report(_request(4, model=huge))
    assert report.verdict == "NO-GO"
    assert any("comes closest" in note for note in report.notes)
    assert report.plan is not None
    assert report.plan.chosen is not None
    assert report.plan.chosen.memory.fits == "no"
    assert any("memory" in one.reason for one in report.plan.rejected)


def test_a_search_needs_no_batch() -> None:
    """The batch is then that of each layout, a column like its degrees."""
    found = search(_request(batch=None))
    assert found.fitting > 0
    assert len({layout.run.global_batch for _, _, layout in _rows(_request(batch=None), found)}) > 1


def test_a_wish_that_cannot_be_is_an_error() -> None:
    with pytest.raises(UsageError):
        plan_report(_request(8, tensor_parallel=3))


@given(
    data=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), min_size=1, max_size=60), keep=st.integers(1, 10)
)
@settings(max_examples=60, deadline=None)
def test_a_pool_keeps_the_quickest_and_the_front(data: list[tuple[int, int]], keep: int) -> None:
    class Names:
        @staticmethod
        def table(rows: numpy.ndarray, columns: numpy.ndarray) -> numpy.ndarray:
            return numpy.stack([rows, columns], axis=1).astype(float)

    pool = Pool(keep, 2)
    for start in range(0, len(data), 5):
        part = numpy.array(data[start : start + 5], dtype=float)
        pool.add(0, part[:, :1], part[:, 1:], numpy.ones((len(part), 1), dtype=bool), Names)
    pool.settled()
    best = sorted(time for time, _ in data)[:keep]
    assert list(pool.table[: len(best), 0]) == best
    front = {pair for pair in data if not any(o != pair and o[0] <= pair[0] and o[1] <= pair[1] for o in data)}
    assert front == {(row[0], row[1]) for row in pool.front()}


def test_a_plan_of_one_layout_imports_no_numpy() -> None:
    code = "import sys; from preflight.cli.main import main; main(['plan', 'transformer', '7', '32', '-q']); print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "False", done.stderr
