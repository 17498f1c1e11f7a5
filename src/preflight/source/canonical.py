"""One name for one thing: libraries export the same class under several paths."""

from __future__ import annotations

import re
from functools import lru_cache

_PREFIXES = (
    ("pytorch_lightning.", "lightning.pytorch."),
    ("lightning.fabric.fabric.", "lightning.fabric."),
    ("lightning.pytorch.trainer.trainer.", "lightning.pytorch."),
    ("lightning.pytorch.core.module.", "lightning.pytorch."),
    ("lightning.pytorch.core.", "lightning.pytorch."),
    ("lightning.pytorch.trainer.", "lightning.pytorch."),
    ("torch.utils.data.distributed.", "torch.utils.data."),
    ("torch.utils.data.dataloader.", "torch.utils.data."),
    ("torch.utils.data.dataset.", "torch.utils.data."),
    ("torch.utils.data.sampler.", "torch.utils.data."),
    ("torch.nn.parallel.distributed.", "torch.nn.parallel."),
    ("torch.distributed.fsdp.fully_sharded_data_parallel.", "torch.distributed.fsdp."),
    ("torch.distributed.fsdp._fully_shard.", "torch.distributed.fsdp."),
    ("torch.distributed._composable.fsdp.", "torch.distributed.fsdp."),
    ("torch.distributed.distributed_c10d.", "torch.distributed."),
    ("torch.cuda.amp.autocast_mode.", "torch.cuda.amp."),
    ("torch.cuda.amp.grad_scaler.", "torch.cuda.amp."),
    ("torch.amp.grad_scaler.", "torch.amp."),
    ("torch.amp.autocast_mode.", "torch.amp."),
    ("torch.autograd.grad_mode.", "torch."),
    ("torch.functional.", "torch."),
    ("torch.nn.utils.clip_grad.", "torch.nn.utils."),
    ("accelerate.accelerator.", "accelerate."),
    ("transformers.trainer.", "transformers."),
    ("transformers.training_args.", "transformers."),
    ("transformers.hf_argparser.", "transformers."),
    ("transformers.optimization.", "transformers."),
    ("hydra.core.config_store.", "hydra."),
)
_EXACT = {
    "lightning.Trainer": "lightning.pytorch.Trainer",
    "lightning.LightningModule": "lightning.pytorch.LightningModule",
    "lightning.LightningDataModule": "lightning.pytorch.LightningDataModule",
    "lightning.seed_everything": "lightning.pytorch.seed_everything",
    "lightning.Fabric": "lightning.fabric.Fabric",
    "torch.amp.autocast": "torch.autocast",
    "torch.nn.DataParallel": "torch.nn.parallel.DataParallel",
    "torch.no_grad": "torch.no_grad",
    "torch.autograd.no_grad": "torch.no_grad",
    "torch.autograd.inference_mode": "torch.inference_mode",
    "torch.autograd.set_grad_enabled": "torch.set_grad_enabled",
    "torch.optim.lr_scheduler._LRScheduler": "torch.optim.lr_scheduler.LRScheduler",
    "pytorch_lightning": "lightning.pytorch",
    "torch.special.softmax": "torch.softmax",
}
_OPTIM = re.compile(r"^torch\.optim\.(?!lr_scheduler|swa_utils)[a-z_]\w*\.([A-Z]\w*)$")
_MODULES = re.compile(r"^torch\.nn\.modules\.(?:\w+\.)?([A-Z]\w*)$")
_HF_MODEL = re.compile(r"^transformers\.models\.\w+(?:\.\w+)?\.(\w+)$")


@lru_cache(maxsize=8192)
def canonical(name: str) -> str:
    """Return the shortest public name of a thing of a library."""
    exact = _EXACT.get(name)
    if exact is not None:
        return exact
    for prefix, short in _PREFIXES:
        if name.startswith(prefix):
            return canonical(short + name[len(prefix) :])
    for pattern, short in ((_OPTIM, "torch.optim."), (_MODULES, "torch.nn."), (_HF_MODEL, "transformers.")):
        match = pattern.match(name)
        if match:
            return short + match.group(1)
    return name
