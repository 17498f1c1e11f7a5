from __future__ import annotations

import copy
from pathlib import Path

import pytest

import preflight
from preflight import MemoryAnalyzer, create_cluster_spec, create_distribution_strategy, make_plan
from preflight.errors import UsageError
from preflight.vocabulary.model import ModelSpec

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "plan" / "hybrid_example.yaml"


def test_one_gpu_by_the_names_of_the_readme() -> None:
    result = MemoryAnalyzer(gpu_type="NVIDIA H100").analyze_model(
        model_type="transformer", model_size_billions=7.0, batch_size=32, sequence_length=2048
    )
    memory = result.memory_breakdown
    # Weights, gradients, master weights and two moments: 18 bytes a parameter, before any activation.
    assert memory.total_memory_gb > 7 * 18
    states = memory.model_parameters_gb + memory.gradients_gb + memory.optimizer_states_gb
    assert states == pytest.approx(7 * 18, rel=0.001)
    assert memory.fits == "no"
    assert copy.copy(memory).total_memory_gb == memory.total_memory_gb
    assert memory.total_memory_gib == pytest.approx(memory.total_memory_gb * 1e9 / 2**30)
    estimate = result.training_estimate
    assert estimate.steps is not None
    assert estimate.step_seconds is not None
    assert estimate.total_hours == pytest.approx(estimate.steps * estimate.step_seconds / 3600)
    assert estimate.tokens == pytest.approx(20 * 7e9, rel=0.001)
    assert result.recommendations
    with pytest.raises(AttributeError):
        _ = memory.nothing_gb


def test_several_gpus_by_the_names_of_the_readme() -> None:
    cluster = create_cluster_spec(num_gpus=8, gpu_type="NVIDIA H100")
    strategy = create_distribution_strategy("tensor_parallel", num_gpus=8)
    result = MemoryAnalyzer(cluster_spec=cluster).analyze_model(
        model_type="transformer", model_size_billions=70.0, batch_size=32, distribution_strategy=strategy
    )
    assert result.chosen.parallel.tp == 8
    per_gpu = result.distributed_memory["memory_per_gpu"]
    assert per_gpu.total_memory_gb > 70 * 18 / 8
    scaling = result.scaling_analysis
    assert isinstance(scaling["efficiency_percent"], float)
    assert 0 < scaling["efficiency_percent"] <= 100
    assert scaling["basis"]


def test_a_plan_is_the_report_of_the_command_line() -> None:
    report = make_plan("llama-3-8b", 64, gpus=8, gpu="h100", strategy="fsdp", precision="bf16", sequence_length=4096)
    assert report.plan is not None
    assert report.plan.chosen is not None
    assert report.plan.chosen.parallel.dp_shard == 8
    assert report.plan.chosen.run.sequence_length == 4096
    assert make_plan(7.0, 32).inputs["model"] == "7B decoder"
    spec = ModelSpec(
        family="transformer_decoder", layers=4, hidden=256, heads=4, ffn=1024, vocab=1000, tied_embeddings=True
    )
    assert make_plan(spec, 8).verdict == "GO"


def test_settings_come_from_a_file_or_a_mapping() -> None:
    filed = make_plan(config=EXAMPLE)
    assert filed.plan is not None
    assert filed.plan.chosen is not None
    assert (filed.plan.chosen.parallel.tp, filed.plan.chosen.parallel.pp) == (2, 2)
    told = make_plan(config={"model": {"name": "gpt2"}, "run": {"precision": "fp32"}}, batch_size=4)
    assert told.plan is not None
    assert told.plan.chosen is not None
    assert told.plan.chosen.run.precision == "fp32"


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(UsageError, match="no option 'precison'") as caught:
        make_plan("gpt2", 8, precison="bf16")
    assert caught.value.hint == "did you mean precision?"
    with pytest.raises(UsageError, match="over 4 GPUs, the cluster has 8"):
        MemoryAnalyzer(cluster_spec=create_cluster_spec(8)).analyze_model(
            model_size_billions=7.0,
            batch_size=8,
            distribution_strategy=create_distribution_strategy("fsdp", num_gpus=4),
        )
    with pytest.raises(UsageError, match="both given"):
        MemoryAnalyzer(gpu_type="h100", cluster_spec=create_cluster_spec(8))
    with pytest.raises(UsageError, match="no option 'racks'"):
        create_cluster_spec(8, racks=2)
    with pytest.raises(UsageError, match="no strategy is called"):
        create_distribution_strategy("telepathy")


def test_the_names_are_there_from_both_doors() -> None:
    import preflight.plan as room

    for name in ("MemoryAnalyzer", "create_cluster_spec", "create_distribution_strategy", "make_plan"):
        assert getattr(room, name) is getattr(preflight, name)
        assert name in dir(room)
