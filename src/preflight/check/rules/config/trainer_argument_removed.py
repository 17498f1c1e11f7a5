"""Argument of Lightning's Trainer that version 2 removed.

## What it does
Looks for arguments of `Trainer` that are gone since Lightning 2.0: `gpus`, `tpu_cores`, `resume_from_checkpoint`, `auto_lr_find`, `replace_sampler_ddp`, `strategy="dp"` and others.

## Why
`Trainer(gpus=8)` raises TypeError with Lightning 2; the package `lightning` has had no other version since March 2023.

## Fix
`accelerator="gpu", devices=8` instead of `gpus=8`; `fit(..., ckpt_path=...)` instead of `resume_from_checkpoint`.

## When to ignore
When the environment pins `pytorch_lightning` below 2.

## References
- Lightning documentation, "Upgrade from 1.x to 2.x"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="trainer-argument-removed",
    code="LIT003",
    severity="warning",
    confidence="likely",
    layer="S",
    tags=("lightning",),
)

BAD = (
    """
import lightning.pytorch as pl
trainer = pl.Trainer(gpus=8, max_epochs=3)
""",
    """
import argparse
from lightning import Trainer as T
def build(args):
    return T(max_epochs=3, resume_from_checkpoint=args.resume)
p = argparse.ArgumentParser()
p.add_argument("--resume", default="last.ckpt")
build(p.parse_args())
""",
    """
from lightning.pytorch import Trainer
class Run:
    strategy = "dp"
    def __init__(self):
        self.trainer = Trainer(devices=2, strategy=self.strategy)
Run()
""",
)

GOOD = (
    """
import lightning.pytorch as pl
trainer = pl.Trainer(accelerator="gpu", devices=8, strategy="ddp", use_distributed_sampler=False)
""",
    """
import pytorch_lightning as pl
trainer = pl.Trainer(gpus=8)
""",
)

_REMOVED = {
    "gpus": 'accelerator="gpu", devices=N',
    "num_gpus": "devices",
    "tpu_cores": 'accelerator="tpu", devices=N',
    "ipus": "accelerator",
    "num_processes": "devices",
    "auto_select_gpus": 'devices="auto"',
    "resume_from_checkpoint": "fit(..., ckpt_path=...)",
    "progress_bar_refresh_rate": "the TQDMProgressBar callback",
    "weights_summary": "enable_model_summary",
    "weights_save_path": "default_root_dir",
    "checkpoint_callback": "enable_checkpointing",
    "auto_lr_find": "Tuner.lr_find",
    "auto_scale_batch_size": "Tuner.scale_batch_size",
    "replace_sampler_ddp": "use_distributed_sampler",
    "amp_backend": "precision",
    "amp_level": "precision",
    "track_grad_norm": "a hook",
    "distributed_backend": "strategy",
    "terminate_on_nan": "detect_anomaly",
    "stochastic_weight_avg": "the callback",
    "multiple_trainloader_mode": "CombinedLoader",
    "flush_logs_every_n_steps": "the logger",
    "move_metrics_to_cpu": "torchmetrics",
}
_STRATEGIES = ("dp", "ddp2", "ddp_sharded", "ddp_sharded_spawn", "horovod", "fsdp_native", "bagua", "collaborative")


def check(context: Context) -> Iterator[Finding]:
    """Find removed arguments in scripts that use the package of version 2."""
    if "lightning" not in context.reading.imports:
        return
    for event in context.trace.calls("lightning.pytorch.Trainer"):
        wrong = [(name, f"use {_REMOVED[name]}") for name in event.kwargs if name in _REMOVED]
        strategy = context.value(event.kwargs.get("strategy"))
        if strategy in _STRATEGIES:
            wrong.append((f'strategy="{strategy}"', "use ddp or fsdp"))
        if not wrong:
            continue
        name, advice = wrong[0]
        yield context.finding(
            RULE,
            event,
            f"{name} was removed from Lightning's Trainer in version 2.0 ({advice})",
            evidence=[Evidence("removed arguments", ", ".join(n for n, _ in wrong), source="published")],
            fix=Fix(title=f"replace {name}", instruction=advice, expected="the trainer can be made with Lightning 2"),
        )
