"""Roles: what a thing is in a training program, by how it was made, or by how it is used. Names are never evidence."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from preflight.source.evaluate.library.methods import is_module
from preflight.source.evaluate.library.torch import wrapped
from preflight.source.values import Choice, Class, Obj, Phi, Unknown, Value, options_of, settle

if TYPE_CHECKING:
    from preflight.source.trace import Trace

# What the names of a library mean, by the library: a pattern is only compiled when a script uses it.
_OF_LIBRARY: dict[str, tuple[tuple[str, str], ...]] = {
    "torch": (
        ("optimizer", r"torch\.(optim\.(?!lr_scheduler|swa_utils)|distributed\.optim\.)[A-Z]"),
        ("scheduler", r"torch\.optim\.(lr_scheduler\.[A-Z]|swa_utils\.SWALR)"),
        (
            "scaler",
            r"torch\.((cuda\.)?amp\.(grad_scaler\.)?GradScaler|distributed\.fsdp\.sharded_grad_scaler\.\w+)$",
        ),
        ("loader", r"torch\.utils\.data\.DataLoader$"),
        ("sampler", r"torch\.utils\.data\.\w*Sampler$"),
        ("dataset", r"torch\.utils\.data\.(\w*Dataset|Subset|random_split)"),
        ("criterion", r"torch\.nn\.\w*Loss$"),
        ("pipeline", r"torch\.distributed\.pipelining\.(schedules\.)?Schedule\w"),
    ),
    "transformers": (
        ("optimizer", r"transformers\.(AdamW|Adafactor)$"),
        ("scheduler", r"transformers\.get_\w*schedule"),
    ),
    "bitsandbytes": (("optimizer", r"bitsandbytes\.optim\.[A-Z]\w"),),
    "apex": (("optimizer", r"apex\.optimizers\.[A-Z]\w"),),
    "deepspeed": (
        ("optimizer", r"deepspeed\.(ops\.(adam|adagrad|lamb|lion|muon|sgd)\.\w|DeepSpeedOptimizer)"),
        ("scheduler", r"deepspeed\.LRScheduler"),
        ("loader", r"deepspeed\.DeepSpeedDataLoader$"),
    ),
    "timm": (
        ("optimizer", r"timm\.optim\.(create_optimizer|[A-Z])"),
        ("scheduler", r"timm\.scheduler\.(create_scheduler|[A-Z])"),
        ("scaler", r"timm\.utils\.(NativeScaler|ApexScaler)$"),
        ("loader", r"timm\.data\.create_loader$"),
        ("sampler", r"timm\.data\.\w*Sampler$"),
        ("dataset", r"timm\.data\.create_dataset"),
        ("criterion", r"timm\.loss\.\w+$"),
    ),
    "lion_pytorch": (("optimizer", r"lion_pytorch\.Lion"),),
    "torch_optimizer": (("optimizer", r"torch_optimizer\.[A-Z]\w"),),
    "torchao": (("optimizer", r"torchao\.\w*\.?\w*\.?Adam"),),
    "prodigyopt": (("optimizer", r"prodigyopt\.\w"),),
    "schedulefree": (("optimizer", r"schedulefree\.\w"),),
    "dadaptation": (("optimizer", r"dadaptation\.\w"),),
    "muon": (("optimizer", r"muon\.\w"),),
    "sophia": (("optimizer", r"sophia\.\w"),),
    "galore_torch": (("optimizer", r"galore_torch\.\w"),),
    "pytorch_optimizer": (("optimizer", r"pytorch_optimizer\.[A-Z]\w"),),
    "colossalai": (("optimizer", r"colossalai\.nn\.optimizer\.\w"),),
    "fairscale": (("optimizer", r"fairscale\.optim\.[A-Z]\w"),),
    "pytorch_transformers": (
        ("optimizer", r"pytorch_transformers\.AdamW"),
        ("scheduler", r"pytorch_transformers\.\w*Schedule"),
    ),
    "pytorch_pretrained_bert": (("optimizer", r"pytorch_pretrained_bert\.\w*\.?BertAdam"),),
    "adamp": (("optimizer", r"adamp\.\w"),),
    "came_pytorch": (("optimizer", r"came_pytorch\.CAME"),),
    "diffusers": (("scheduler", r"diffusers\.optimization\.get_\w"),),
    "ignite": (("scheduler", r"ignite\.handlers\.\w*Scheduler"),),
    "warmup_scheduler": (("scheduler", r"warmup_scheduler\.\w"),),
    "cosine_annealing_warmup": (("scheduler", r"cosine_annealing_warmup\.\w"),),
    "torchtune": (("scheduler", r"torchtune\.training\.get_\w+schedul"),),
    "torch_geometric": (
        ("loader", r"torch_geometric\.(loader|data)\.\w*Loader\w*$"),
        ("dataset", r"torch_geometric\.datasets\.\w"),
    ),
    "torchdata": (
        ("loader", r"torchdata\.\w+(\.\w+)*\.StatefulDataLoader$"),
        ("sampler", r"torchdata\.\w+(\.\w+)*\.\w*Sampler$"),
    ),
    "lightning": (("loader", r"lightning\.\w+\.\w*DataLoader$"),),
    "dgl": (("loader", r"dgl\.dataloading\.\w+$"),),
    "webdataset": (("loader", r"webdataset\.WebLoader$"),),
    "monai": (("loader", r"monai\.data\.DataLoader$"),),
    "torchtext": (
        ("loader", r"torchtext\.(legacy\.)?data\.\w*Iterator$"),
        ("dataset", r"torchtext\.(legacy\.)?datasets\.\w"),
    ),
    "torchvision": (("dataset", r"torchvision\.datasets\.\w"),),
    "torchaudio": (("dataset", r"torchaudio\.datasets\.\w"),),
    "datasets": (("dataset", r"datasets\.(load_dataset|load_from_disk|Dataset)"),),
    "segmentation_models_pytorch": (("criterion", r"segmentation_models_pytorch\.losses\.\w+$"),),
}
_EXACT = {
    "accelerate.Accelerator": "accelerator",
    "lightning.fabric.Fabric": "fabric",
    "deepspeed.DeepSpeedEngine": "engine",
    "transformers.Trainer": "trainer",
    "transformers.Seq2SeqTrainer": "trainer",
    "trl.SFTTrainer": "trainer",
    "trl.DPOTrainer": "trainer",
    "trl.GRPOTrainer": "trainer",
    "trl.RewardTrainer": "trainer",
    "sentence_transformers.SentenceTransformerTrainer": "trainer",
    "lightning.pytorch.Trainer": "lightning_trainer",
    "lightning.pytorch.LightningModule": "lightning_module",
    "torch.nn.Parameter": "parameter",
    "torch.nn.parameter.Parameter": "parameter",
    "transformers.TrainingArguments": "training_arguments",
    "transformers.Seq2SeqTrainingArguments": "training_arguments",
}


@lru_cache(maxsize=4096)
def role_of_name(name: str) -> str | None:
    """The role of what a library class or factory makes, by its full name."""
    found = _EXACT.get(name)
    if found is not None:
        return found
    for role, pattern in _OF_LIBRARY.get(name.partition(".")[0], ()):
        if re.match(pattern, name):
            return role
    return None


class Roles:
    """The roles of the things in a trace."""

    def __init__(self, trace: Trace) -> None:
        """Remember how things are used, for those whose making is not known."""
        self._cache: dict[int, str | None] = {}
        self._uses: dict[int, set[str]] = {}
        for name, events in trace.by_name.items():
            if not name.startswith("."):
                continue
            for event in events:
                for option in options_of(event.receiver, limit=4):
                    self._uses.setdefault(id(option), set()).add(name)

    def of(self, value: Value | None) -> str | None:
        """The role of a value (of its preferred option, else of the first option that has one)."""
        if value is None:
            return None
        base = settle(value)
        if isinstance(base, (Choice, Phi)):
            for option in options_of(base, limit=6):
                role = self.of(option)
                if role is not None:
                    return role
            return None
        key = id(base)
        if key not in self._cache:
            self._cache[key] = None  # ends cycles
            self._cache[key] = self._find(base)
        return self._cache[key]

    def _find(self, base: Value) -> str | None:
        if isinstance(base, Obj):
            role = self._by_making(base)
            if role is not None:
                return role
        if isinstance(base, (Obj, Unknown)):
            return self._by_use(base)
        if isinstance(base, Class):
            return next((r for r in map(role_of_name, base.external_bases()) if r), None)
        return None

    def _by_making(self, base: Obj) -> str | None:
        if base.cls is not None:
            for name in base.cls.external_bases():
                role = role_of_name(name)
                if role is not None:
                    return role
            if is_module(base):
                return (
                    "criterion"
                    if "Loss" in base.cls.qualname and not self._uses.get(id(base), set()) & {".train"}
                    else "model"
                )
            return None
        if base.kind in {"call", "param", "copy"}:
            role = role_of_name(base.name)
            if role is not None:
                return role
            inner = wrapped(base)
            if inner is not base and inner is not None:
                return self.of(inner) or "model"
        return "model" if is_module(base) else None

    def _by_use(self, base: Value) -> str | None:
        uses = self._uses.get(id(base), set())
        if ".zero_grad" in uses and ".step" in uses:
            return "optimizer"
        if ".unscale_" in uses or (".scale" in uses and ".update" in uses):
            return "scaler"
        if ".get_last_lr" in uses or ".step_update" in uses:
            return "scheduler"
        if {".parameters", ".named_parameters"} & uses or (".train" in uses and ".eval" in uses):
            return "model"
        if ".state_dict" in uses and ".zero_grad" in uses:
            return "model"
        return None

    def options(self, value: Value | None, role: str) -> list[Value]:
        """The options of a value that have a role."""
        return [option for option in options_of(value) if self.of(option) == role]
