"""The environment's variables that change how training runs; nothing that may be a secret is read."""

from __future__ import annotations

import os

from preflight.investigate.doctor.wanted import Wanted
from preflight.vocabulary.finding import Scalar

PREFIXES = (
    "NCCL_", "TORCH", "PYTORCH_", "GLOO_", "CUDA_", "NVIDIA_", "OMP_", "MKL_", "KMP_", "UCX_", "FI_", "OFI_NCCL_", "RCCL_",
    "HSA_", "HIP_", "ROCR_", "DEEPSPEED_", "ACCELERATE_", "MASTER_", "SLURM_NNODES", "SLURM_NTASKS", "SLURM_JOB_NUM_NODES",
    "SLURM_JOB_PARTITION", "TOKENIZERS_PARALLELISM", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE",
)  # fmt: skip
NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "PYTHONPATH", "LD_LIBRARY_PATH", "LD_PRELOAD",
         "PYTHONHASHSEED", "PYTHONUNBUFFERED", "MALLOC_ARENA_MAX", "TZ", "LANG")  # fmt: skip
SECRET = ("TOKEN", "KEY", "SECRET", "PASS", "CREDENTIAL", "AUTH")
LONGEST = 500


def collect(wanted: Wanted) -> dict[str, Scalar]:
    """Return ``environment.NAME`` of those that are set."""
    return {
        f"environment.{name}": value[:LONGEST]
        for name, value in sorted(os.environ.items())
        if (name.startswith(PREFIXES) or name in NAMES) and not any(word in name.upper() for word in SECRET)
    }
