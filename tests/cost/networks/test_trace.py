"""Networks that are written down: what they keep, compute and move, and how a step comes of it."""

from __future__ import annotations

import msgspec
import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.catalog.architectures import find_model
from preflight.catalog.hardware import resolve_gpu
from preflight.cost.flops import flops_per_sample
from preflight.cost.memory import estimate_memory
from preflight.cost.networks.operation import Product
from preflight.cost.networks.rewind import rewind
from preflight.cost.networks.tape import Tape
from preflight.cost.networks.trace import input_side, network_step, trace
from preflight.plan.evaluate import evaluate
from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.network import DiffusionTransformer, UNet
from preflight.vocabulary.run import ParallelDims, RunSpec

UNET = UNet(
    channels=(32, 64), resnets=(1, 1), transformers=(0, 1), transformers_up=(0, 1), heads=(4, 4), middle=1, text_width=48,
)  # fmt: skip
DIT = DiffusionTransformer(
    style="dit", blocks=3, hidden=64, heads=4, ffn=256, patch=2, in_channels=4, out_channels=8, classes=10
)
FLUX = DiffusionTransformer(
    style="flux", blocks=2, single_blocks=2, hidden=64, heads=4, ffn=256, patch=2, in_channels=4, out_channels=4,
    text_width=32, text_tokens=7, pooled_width=16,
)  # fmt: skip
NETWORKS = (UNET, DIT, FLUX)
GPU = resolve_gpu("A100")


def model_of(network: UNet | DiffusionTransformer, size: int = 64) -> ModelSpec:
    return ModelSpec(family="diffusion_model", network=network, image_size=size, layers=4, hidden=64)


def run_of(batch: int = 4, **more: object) -> RunSpec:
    fields: dict[str, object] = {
        "micro_batch": batch, "global_batch": batch, "image_size": 64, "precision": "autocast-bf16", "optimizer": "adamw",
    }  # fmt: skip
    return RunSpec(**(fields | more))  # type: ignore[arg-type]


def peak(network: UNet | DiffusionTransformer, parallel: ParallelDims | None = None, **more: object) -> float:
    found = estimate_memory(model_of(network), run_of(**more), parallel or ParallelDims(), GPU).peak_bytes  # type: ignore[arg-type]
    assert found is not None
    return found.mid


def test_a_linear_layer_by_hand() -> None:
    tape = Tape(2.0, 2.0)
    x = tape.linear(tape.data(10.0, 8.0), 16.0)
    tape.linear(tape.activation(x), 4.0)
    assert tape.parameters == [8 * 16 + 16 + 16 * 4 + 4]
    kept = rewind(tape, recompute=False)
    # The input (10 x 8), what the activation keeps (10 x 16) and the second input (10 x 16), two bytes each.
    assert kept.saved == 2 * 10 * (8 + 16 + 16)
    # Worst: the gradients of the result (10 x 4) and of the second input (10 x 16) beside everything kept.
    assert kept.points[0].bytes == kept.saved + 2 * 10 * (4 + 16)
    assert [op.product for op in tape.ops if op.product] == [
        Product(10.0, 16.0, 8.0, 80.0, graded=False), Product(10.0, 4.0, 16.0, 160.0)
    ]  # fmt: skip


def test_a_sum_takes_no_memory_backward_and_a_gradient_of_two_uses_is_added_up() -> None:
    tape = Tape(4.0, 4.0)
    x = tape.linear(tape.data(1.0, 8.0), 8.0)
    tape.add(tape.linear(x, 8.0), x)
    kept = rewind(tape, recompute=False)
    assert kept.saved == 4 * (8 + 8)
    # The sum's gradient is also that of x; that of x through the matrix is made beside it, and their sum once more.
    assert max(point.bytes for point in kept.points) == kept.saved + 4 * 8 * 3


def test_the_published_work_of_a_forward_pass() -> None:
    # 118.64 billion multiplications and additions for DiT-XL/2 at 256 pixels (Peebles and Xie 2022, table 4).
    model = find_model("DiT-XL/2")
    assert model is not None
    flops = flops_per_sample(model, image_size=256)
    assert flops is not None
    assert flops.forward / 2 == pytest.approx(118.64e9, rel=0.01)
    larger = flops_per_sample(model, image_size=512)
    assert larger is not None
    assert larger.forward / 2 == pytest.approx(524.6e9, rel=0.01)


@pytest.mark.parametrize("network", NETWORKS)
def test_recomputation_keeps_less_and_computes_its_blocks_again(network: UNet | DiffusionTransformer) -> None:
    found = trace(network, 8.0, 2.0, 4.0, False)
    assert found.recomputed.saved < found.kept.saved
    assert 0 < found.blocks.flops < found.whole.flops
    assert peak(network, recompute="full", batch=64) < peak(network, batch=64)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_nothing_but_rounding_is_left_at_the_end_of_a_backward_pass(
    network: UNet | DiffusionTransformer, recompute: str
) -> None:
    from preflight.cost.networks.rewind import _Rewind
    from preflight.cost.networks.transformers import write_transformer
    from preflight.cost.networks.unet import write_unet

    tape = Tape(2.0, 4.0)
    if isinstance(network, UNet):
        write_unet(tape, network, 8.0)
    else:
        write_transformer(tape, network, 8.0)
    played = _Rewind(tape, recompute == "full")
    played.run()
    assert played.live == pytest.approx(0.0, abs=1e-6)
    assert not +played.kept
    assert not played.gradients


@pytest.mark.parametrize("network", NETWORKS)
def test_written_out_attention_keeps_its_matrix(network: UNet | DiffusionTransformer) -> None:
    assert peak(network, attention="eager", batch=64) > peak(network, batch=64)


@given(st.integers(1, 64), st.integers(1, 4), st.sampled_from(NETWORKS))
@settings(max_examples=30, deadline=None)
def test_memory_grows_with_batch_and_image(batch: int, pieces: int, network: UNet | DiffusionTransformer) -> None:
    assert peak(network, batch=batch) <= peak(network, batch=batch + 1)
    size = network_step(network) * pieces * 2
    assert peak(network, batch=batch, image_size=size) <= peak(network, batch=batch, image_size=2 * size)


@given(st.sampled_from([1, 2, 8, 64]), st.sampled_from([0, 1, 2, 3]), st.sampled_from(NETWORKS))
@settings(max_examples=30, deadline=None)
def test_sharding_never_adds_states(ranks: int, stage: int, network: UNet | DiffusionTransformer) -> None:
    plain = ParallelDims(dp_replicate=ranks, framework="ddp" if ranks > 1 else None)
    shared = ParallelDims(
        dp_shard=ranks, zero_stage=stage if ranks > 1 else 0, framework="fsdp2" if stage > 1 else "megatron"
    )
    states = []
    for parallel in (plain, shared):
        found = estimate_memory(model_of(network), run_of(precision="pure-bf16"), parallel, GPU).breakdown
        assert found is not None
        states.append(found.model_parameters + found.optimizer_states)
    assert states[1] <= states[0] * (1 + 1e-9)


@pytest.mark.parametrize("network", NETWORKS)
def test_columns_are_the_numbers(network: UNet | DiffusionTransformer) -> None:
    model, cluster = model_of(network), Cluster(gpu=GPU, num_gpus=8, gpus_per_node=8)
    batches, ranks = numpy.array([1.0, 2.0, 8.0]), numpy.array([8.0, 4.0, 2.0])
    run = run_of(micro_batch=batches, global_batch=64, recompute="full")
    dims = ParallelDims(dp_shard=ranks, dp_replicate=8 / ranks, zero_stage=3, framework="fsdp2")  # type: ignore[arg-type]
    together = evaluate(model, run, dims, cluster)
    assert together.step is not None
    for index in range(3):
        one_run = msgspec.structs.replace(run, micro_batch=int(batches[index]))
        one = msgspec.structs.replace(dims, dp_shard=int(ranks[index]), dp_replicate=int(8 / ranks[index]))
        alone = evaluate(model, one_run, one, cluster)
        assert alone.step is not None
        assert numpy.broadcast_to(together.step.total, (3,))[index] == pytest.approx(alone.step.total)
        assert together.device[index] == pytest.approx(alone.device)


def test_time_of_many_samples_grows_with_them() -> None:
    model = find_model("sd15")
    assert model is not None
    seconds = []
    for batch in (16, 32):
        step = evaluate(model, run_of(batch=batch, image_size=512), ParallelDims(), Cluster(gpu=GPU)).step
        assert step is not None
        seconds.append(step.compute)
    assert 1.8 < seconds[1] / seconds[0] < 2.05


def test_only_nothing_and_everything_is_known_of_recomputation() -> None:
    for more in ({"recompute": "op"}, {"recompute": "selective"}, {"recompute": "full", "recompute_layers": 2}):
        found = estimate_memory(model_of(UNET), run_of(**more), ParallelDims(), GPU)
        assert found.peak_bytes is None
        assert "recomputation" in (found.reason or "")
        assert evaluate(model_of(DIT), run_of(recompute="op"), ParallelDims(), Cluster(gpu=GPU)).step is None


def test_text_tokens_are_those_of_the_run() -> None:
    assert peak(FLUX, sequence_length=200, batch=64) > peak(FLUX, sequence_length=7, batch=64) == peak(FLUX, batch=64)


def test_only_whole_pieces_of_an_image_are_seen() -> None:
    assert network_step(UNET) == 16
    assert network_step(DIT) == 16
    assert input_side(UNET, 100) == 12
    assert input_side(UNET, 3) == 2
