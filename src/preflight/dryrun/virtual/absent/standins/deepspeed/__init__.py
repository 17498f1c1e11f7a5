"""What training scripts use of DeepSpeed, where it is not installed: an engine with its master weights and their states.

Weights and gradients lie in the type that the settings name, master weights and the optimizer's states in fp32, the share
of one rank from the first stage of ZeRO on. Buckets, and the partition of gradients and weights, are not counted.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch

from . import comm, ops, runtime, zero
from .engine import DeepSpeedEngine

__version__ = "0.18.0"
__all__ = [
    "DeepSpeedEngine",
    "add_config_arguments",
    "comm",
    "init_distributed",
    "initialize",
    "ops",
    "runtime",
    "zero",
]


def initialize(
    args: Any = None,
    model: Any = None,
    optimizer: Any = None,
    model_parameters: Any = None,
    training_data: Any = None,
    lr_scheduler: Any = None,
    *_: Any,
    config: Any = None,
    config_params: Any = None,
    collate_fn: Any = None,
    **__: Any,
) -> Any:
    """Return the engine, its optimizer, a loader and the schedule."""
    settings = config or config_params or getattr(args, "deepspeed_config", None) or {}
    engine = DeepSpeedEngine(model, optimizer, model_parameters, settings, lr_scheduler)
    loader = None
    if training_data is not None:
        size = engine.train_micro_batch_size_per_gpu()
        loader = torch.utils.data.DataLoader(training_data, batch_size=size, collate_fn=collate_fn)
    return engine, engine.optimizer, loader, engine.lr_scheduler


def add_config_arguments(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the options of the launcher."""
    parser.add_argument("--deepspeed", action="store_true")
    parser.add_argument("--deepspeed_config", type=str)
    return parser


def init_distributed(dist_backend: str = "nccl", *_: Any, **__: Any) -> None:
    """Start the process group, where the launcher says who takes part."""
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group(dist_backend)
