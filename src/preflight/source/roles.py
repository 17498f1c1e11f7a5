"""Roles: what a thing is in a training program, by how it was made, or by how it is used. Names are never evidence."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from preflight.source.evaluate.library.methods import is_module
from preflight.source.evaluate.library.torch import wrapped
from preflight.source.values import Choice, Class, Obj, Phi, Unknown, Value, options_of, settle

if TYPE_CHECKING:
    from preflight.source.trace import Trace

_OPTIMIZER = re.compile(
    r"^(torch\.optim\.(?!lr_scheduler|swa_utils)[A-Z]\w*|torch\.distributed\.optim\.[A-Z]\w*|transformers\.(AdamW|Adafactor)$"
    r"|bitsandbytes\.optim\.[A-Z]\w+|apex\.optimizers\.[A-Z]\w+|deepspeed\.(ops\.\w+\.\w+|DeepSpeedOptimizer)|timm\.optim\.(create_optimizer\w*|[A-Z]\w*)"
    r"|lion_pytorch\.Lion|torch_optimizer\.[A-Z]\w+|torchao\.\w*\.?\w*\.?Adam\w*|prodigyopt\.\w+|schedulefree\.\w+"
    r"|dadaptation\.\w+|muon\.\w+|sophia\.\w+|galore_torch\.\w+|pytorch_optimizer\.[A-Z]\w+|colossalai\.nn\.optimizer\.\w+"
    r"|fairscale\.optim\.[A-Z]\w+|pytorch_transformers\.AdamW|pytorch_pretrained_bert\.\w*\.?BertAdam|adamp\.\w+|came_pytorch\.CAME)"
)
_SCHEDULER = re.compile(
    r"^(torch\.optim\.lr_scheduler\.[A-Z]\w*|transformers\.(get_\w*schedule\w*)|diffusers\.optimization\.get_\w+"
    r"|timm\.scheduler\.(create_scheduler\w*|[A-Z]\w*)|ignite\.handlers\.\w*Scheduler|torch\.optim\.swa_utils\.SWALR|deepspeed\.LRScheduler"
    r"|pytorch_transformers\.\w*Schedule|warmup_scheduler\.\w+|cosine_annealing_warmup\.\w+|torchtune\.training\.get_\w+schedul\w*)"
)
_SCALER = re.compile(
    r"^(torch\.(cuda\.)?amp\.GradScaler|torch\.cuda\.amp\.grad_scaler\.GradScaler|torch\.distributed\.fsdp\.sharded_grad_scaler\.\w+"
    r"|timm\.utils\.(NativeScaler|ApexScaler))$"
)
_LOADER = re.compile(
    r"^(torch\.utils\.data\.DataLoader|torch_geometric\.(loader|data)\.\w*Loader\w*|timm\.data\.create_loader|torchdata\.\w+(\.\w+)*\.StatefulDataLoader"
    r"|lightning\.\w+\.\w*DataLoader|deepspeed\.DeepSpeedDataLoader|dgl\.dataloading\.\w+|webdataset\.WebLoader|monai\.data\.DataLoader"
    r"|torchtext\.(legacy\.)?data\.\w*Iterator)$"
)
_SAMPLER = re.compile(r"^(torch\.utils\.data\.\w*Sampler|torchdata\.\w+(\.\w+)*\.\w*Sampler|timm\.data\.\w*Sampler)$")
_DATASET = re.compile(
    r"^(torch\.utils\.data\.(\w*Dataset|Subset|random_split)|torchvision\.datasets\.\w+|torchaudio\.datasets\.\w+|datasets\.(load_dataset|load_from_disk|Dataset\S*)"
    r"|timm\.data\.create_dataset|torchtext\.(legacy\.)?datasets\.\w+|torch_geometric\.datasets\.\w+)"
)
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
_CRITERION = re.compile(r"^(torch\.nn\.\w*Loss|timm\.loss\.\w+|segmentation_models_pytorch\.losses\.\w+)$")


def role_of_name(name: str) -> str | None:
    """The role of what a library class or factory makes, by its full name."""
    found = _EXACT.get(name)
    if found is not None:
        return found
    if _OPTIMIZER.match(name):
        return "optimizer"
    if _SCHEDULER.match(name):
        return "scheduler"
    if _SCALER.match(name):
        return "scaler"
    if _LOADER.match(name):
        return "loader"
    if _SAMPLER.match(name):
        return "sampler"
    if _DATASET.match(name):
        return "dataset"
    if _CRITERION.match(name):
        return "criterion"
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
