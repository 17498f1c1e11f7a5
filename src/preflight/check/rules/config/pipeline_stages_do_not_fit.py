"""A pipeline has fewer micro-batches than stages, or more stages than layers.

## What it does
Compares the stages of a pipeline with its micro-batches (`torch.distributed.pipelining`, DeepSpeed's `PipelineModule`) and with the layers that are cut (`PipelineModule`, Megatron).

## Why
With p stages and m micro-batches every stage idles for (p - 1) / (m + p - 1) of a step: 4 stages and 2 micro-batches waste 3 / 5 = 60 %, 16 micro-batches 3 / 19 = 16 %.
`Schedule1F1B` and `ScheduleDualPipeV` refuse fewer micro-batches than stages.
Megatron refuses a number of layers that the stages do not divide, unless it is told how to distribute the rest.

## Fix
Use at least 4 micro-batches per stage where the batch admits it, or fewer stages.

## When to ignore
When the memory of the model leaves no choice, and no larger batch is wanted.

## References
- Huang et al., "GPipe", 2019; Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", 2021
- PyTorch documentation, `torch.distributed.pipelining`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Example, Rule
from preflight.source.facts.settings import deepspeed_config
from preflight.source.trace import Event
from preflight.source.values import Obj, Seq, Value, settle
from preflight.vocabulary.finding import Finding, Severity

RULE = Rule(
    name="pipeline-stages-do-not-fit",
    code="CFG004",
    severity="error",
    confidence="likely",
    layer="C",
    tags=("distributed", "configuration"),
)

BAD = (
    """
import torch
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
stage = PipelineStage(model, 0, 8, torch.device("cuda"))
schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=loss)
""",
    """
import argparse
from torch.distributed import pipelining as pipe
def schedule(stage, count):
    return pipe.ScheduleGPipe(stage, count)
parser = argparse.ArgumentParser()
parser.add_argument("--chunks", type=int, default=2)
args = parser.parse_args()
stage = pipe.PipelineStage(stage_module, rank, num_stages=4, device=device)
schedule(stage, args.chunks).step(x)
""",
    """
import deepspeed
from deepspeed.pipe import PipelineModule as Pipe
from torch import nn
net = Pipe(layers=[nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)], num_stages=4, loss_fn=nn.CrossEntropyLoss())
""",
    Example(
        """
import deepspeed
from deepspeed.pipe import PipelineModule
net = PipelineModule(layers=specs, num_stages=8)
engine, *_ = deepspeed.initialize(model=net, config={"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2})
engine.train_batch()
"""
    ),
    """
from dataclasses import dataclass
from megatron.core.transformer import TransformerConfig
@dataclass
class Shape:
    layers: int = 30
config = TransformerConfig(num_layers=Shape().layers, hidden_size=1024, num_attention_heads=16, pipeline_model_parallel_size=4)
""",
)

GOOD = (
    """
import torch
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
stage = PipelineStage(model, 0, 4, torch.device("cuda"))
schedule = Schedule1F1B(stage, n_microbatches=16, loss_fn=loss)
""",
    """
import deepspeed
from deepspeed.pipe import PipelineModule
net = PipelineModule(layers=specs, num_stages=2)
engine, *_ = deepspeed.initialize(model=net, config={"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8})
engine.train_batch()
""",
    """
from megatron.core.transformer import TransformerConfig
config = TransformerConfig(num_layers=30, hidden_size=1024, num_attention_heads=16, pipeline_model_parallel_size=4,
                           num_layers_in_last_pipeline_stage=6)
""",
)

_PIPELINING = "torch.distributed.pipelining."
_STRICT = ("Schedule1F1B", "ScheduleDualPipeV")
_UNEVEN = (
    "num_layers_in_first_pipeline_stage",
    "num_layers_in_last_pipeline_stage",
    "account_for_embedding_in_pipeline_split",
    "account_for_loss_in_pipeline_split",
    "pipeline_model_parallel_layout",
    "virtual_pipeline_model_parallel_size",
)


def check(context: Context) -> Iterator[Finding]:
    """Find pipelines that cannot be filled."""
    yield from _schedules(context)
    yield from _modules(context)
    for event in context.trace.calls_under("megatron.", "nemo."):
        layers, stages = (_count(context, event.kwargs.get(n)) for n in ("num_layers", "pipeline_model_parallel_size"))
        if (
            layers
            and stages
            and layers % stages
            and not event.context.shadow
            and not event.kwargs.keys() & set(_UNEVEN)
        ):
            yield _layers(context, event, layers, stages, "error")


def _schedules(context: Context) -> Iterator[Finding]:
    """Schedules of PyTorch: the stages are told to ``PipelineStage``."""
    for event in context.trace.calls_under(_PIPELINING):
        name = event.name.rpartition(".")[2]
        if not name.startswith("Schedule") or event.context.shadow:
            continue
        batches = _count(context, event.argument(1, "n_microbatches"))
        given = event.argument(0, "stage") or event.argument(0, "stages")
        stage = settle(given) if given is not None else None
        if isinstance(stage, Seq) and stage.items:
            stage = settle(stage.items[0])
        if not isinstance(stage, Obj) or not stage.name.endswith(".PipelineStage"):
            continue
        stages = _count(context, stage.argument(2, "num_stages"))
        if batches and stages and batches < stages:
            refused = name in _STRICT
            yield _bubble(context, event, batches, stages, name, "error" if refused else "warning", refused)


def _modules(context: Context) -> Iterator[Finding]:
    """DeepSpeed: each accumulated batch is a micro-batch of the pipeline."""
    for event in context.trace.calls("deepspeed.pipe.PipelineModule", "deepspeed.runtime.pipe.module.PipelineModule"):
        stages = _count(context, event.argument(1, "num_stages"))
        if not stages or event.context.shadow:
            continue
        given = event.argument(0, "layers")
        layers = settle(given) if given is not None else None
        if isinstance(layers, Seq) and not layers.open and 0 < len(layers.items) < stages:
            yield _layers(context, event, len(layers.items), stages, "error")
        config = deepspeed_config(context.reading)
        batches = config.get("gradient_accumulation_steps", 1) if config else None
        trained = context.trace.calls(".train_batch")
        derived = config is not None and "gradient_accumulation_steps" not in config and "train_batch_size" in config
        if isinstance(batches, int) and 0 < batches < stages and trained and not derived:
            yield _bubble(context, event, batches, stages, "gradient_accumulation_steps", "warning", False)


def _count(context: Context, value: Value | None) -> int | None:
    found = context.value(value)
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else None


def _bubble(
    context: Context, event: Event, batches: int, stages: int, name: str, severity: Severity, refused: bool
) -> Finding:
    idle = (stages - 1) / (batches + stages - 1)
    shown = f"({stages} - 1) / ({batches} + {stages} - 1) = {idle:.0%}"
    told = f"{name} refuses to start" if refused else f"every stage idles for {idle:.0%} of each step"
    return context.finding(
        RULE,
        event,
        f"the pipeline has {stages} stages and only {batches} micro-batch{'es' if batches > 1 else ''}: {told}",
        severity=severity,
        evidence=[
            Evidence("stages", stages),
            Evidence("micro-batches", batches),
            Evidence("idle share of a step", round(idle, 3), None, "derived", shown),
        ],
        fix=Fix(
            title=f"use at least {4 * stages} micro-batches",
            instruction="cut the batch into more micro-batches, or use fewer stages",
            expected=f"with {4 * stages} micro-batches the stages idle for {(stages - 1) / (5 * stages - 1):.0%}",
        ),
    )


def _layers(context: Context, event: Event, layers: int, stages: int, severity: Severity) -> Finding:
    why = "some stages are left without a layer" if layers < stages else f"{layers} / {stages} = {layers / stages:.4g}"
    return context.finding(
        RULE,
        event,
        f"{layers} layers cannot be cut evenly into {stages} pipeline stages: {why}",
        severity=severity,
        evidence=[Evidence("layers", layers), Evidence("stages", stages, arithmetic=f"{layers} / {stages}")],
        fix=Fix(
            title="choose stages that divide the layers",
            instruction="use fewer stages, or tell how many layers the first and the last stage have",
            expected="every stage has layers to compute",
        ),
    )
