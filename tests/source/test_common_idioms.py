"""Idioms of libraries and of many scripts, by the facts that come of them."""

from __future__ import annotations

from preflight.source.facts.gather import gather
from preflight.source.launcher import Launch
from preflight.source.reading import read
from preflight.source.script import parse
from preflight.vocabulary.fact import Fact


def _facts(script: str) -> dict[str, Fact]:
    return gather(read(parse(script.encode(), "train.py")), Launch(), None)


LIGHTNING = """
import lightning as L, torch
from torch import nn
from torch.utils.data import DataLoader
class Data(L.LightningDataModule):
    def __init__(self, folder, batch_size=48, workers=3):
        super().__init__()
        self.save_hyperparameters(KEPT)
    def train_dataloader(self):
        return DataLoader(items, batch_size=self.hparams.batch_size, num_workers=self.hparams["workers"])
class Net(L.LightningModule):
    def __init__(self, width):
        super().__init__()
        self.save_hyperparameters()
        self.layer = nn.Linear(self.hparams.width, 2)
    def training_step(self, batch, i):
        return self.layer(batch).mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
L.Trainer().fit(Net(8), datamodule=Data("here"))
"""


def test_lightning_keeps_the_arguments_of_init() -> None:
    facts = _facts(LIGHTNING.replace("KEPT", ""))
    assert (facts["batch.micro"].value, facts["dataloader.num_workers"].value) == (48, 3)
    assert facts["model.parameters"].value == 18
    assert _facts(LIGHTNING.replace("KEPT", '"workers"'))["batch.micro"].value is None
    assert _facts(LIGHTNING.replace("KEPT", 'ignore=["batch_size"]'))["batch.micro"].value is None


HYDRA = """
from dataclasses import dataclass, field
import hydra, torch
from hydra.core.config_store import ConfigStore
from hydra.utils import instantiate
@dataclass
class Optimizer:
    _target_: str = "torch.optim.AdamW"
    lr: float = 3e-4
@dataclass
class Config:
    optimizer: Optimizer = field(default_factory=Optimizer)
ConfigStore.instance().store(name="config", node=Config)
@hydra.main(version_base=None, config_name="config")
def main(cfg):
    net = torch.nn.Linear(4, 2)
    optimizer = instantiate(cfg.optimizer, params=net.parameters())
    for x in batches:
        optimizer.zero_grad()
        net(x).mean().backward()
        optimizer.step()
main()
"""


def test_hydra_makes_what_a_structured_configuration_names() -> None:
    facts = _facts(HYDRA)
    assert (facts["optimizer.name"].value, facts["optimizer.lr"].value) == ("AdamW", 3e-4)


WINDOWS = """
import torch
from torch import nn
net = nn.Sequential(nn.Embedding(100, 8), nn.Linear(8, 100))
optimizer = torch.optim.Adam(net.parameters())
def batch(n):
    starts = torch.randint(len(data) - 64, (n,))
    return torch.stack([data[i : i + 64] for i in starts KEPT])
for step in range(10):
    optimizer.zero_grad()
    net(batch(24).cuda()).mean().backward()
    optimizer.step()
"""


def test_windows_that_are_stacked_are_as_many_as_their_beginnings() -> None:
    assert _facts(WINDOWS.replace("KEPT", ""))["batch.micro"].value == 24
    assert _facts(WINDOWS.replace("KEPT", "if i > 3"))["batch.micro"].value is None


PIPELINE = """
import torch
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
net = torch.nn.Linear(8, 8)
schedule = ScheduleGPipe(PipelineStage(net, 0, 2, torch.device("cuda")), n_microbatches=4, loss_fn=loss)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
for x in batches:
    optimizer.zero_grad()
    schedule.step(x)
    optimizer.step()
"""


def test_the_schedule_of_a_pipeline_trains() -> None:
    facts = _facts(PIPELINE)
    assert facts["framework"].value == "pytorch"
    assert _facts(PIPELINE.replace("    schedule.step(x)\n", ""))["framework"].value is None


TIMM = """
import timm
from timm.optim import create_optimizer_v2
model = timm.create_model("resnet18", num_classes=10)
optimizer = create_optimizer_v2(model, opt="sgd", lr=0.1)
for x in batches:
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
"""


def test_timm_takes_the_model_itself_for_its_parameters() -> None:
    assert _facts(TIMM)["model.parameters"].value == 11_181_642


def test_lightning_calls_the_hooks_around_the_steps() -> None:
    script = LIGHTNING.replace("KEPT", "").replace(
        "    def configure_optimizers",
        """    def validation_step(self, batch, i):
        self.kept.append(self.layer(batch))
    def on_validation_epoch_end(self):
        self.log_dict(scores_of(self.kept))
    def on_train_batch_end(self, outputs, batch, i):
        self.log("width", batch.shape[-1])
    def configure_optimizers""",
    )
    trace = read(parse(script.encode(), "train.py")).trace
    assert [event.name for event in trace.calls(".log", ".log_dict")] == [".log", ".log_dict"]
    assert trace.calls(".log_dict")[0].context.withs(), "without gradients, as the validation is"


def test_a_star_import_hands_on_what_the_library_imports() -> None:
    reading = read(parse(b"from tools.all import *\nwith torch.enable_grad():\n    y = np.zeros(Width)\n", "train.py"))
    assert [event.name for event in reading.trace.calls("torch.enable_grad", "numpy.zeros")] == [
        "torch.enable_grad",
        "numpy.zeros",
    ]


MIXED = """
from abc import ABC
import torch
from torch import nn
class Encoded(BASES):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder
class Net(nn.Module, Encoded):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
net = Net()
"""


def test_a_module_asks_torch_before_a_plain_ancestor_that_is_named_later() -> None:
    def inits(bases: str) -> list[list[str]]:
        """The constructors, from the inside out, in which the base of a module is asked."""
        trace = read(parse(MIXED.replace("BASES", bases).encode(), "train.py")).trace
        return [
            [str(getattr(f.value, "qualname", "")) for f in event.context.frames() if f.kind == "call"]
            for event in trace.calls(".super.__init__")
        ]

    assert ["Encoded.__init__", "Net.__init__"] not in inits("ABC")
    assert ["Encoded.__init__", "Net.__init__"] in inits("nn.Module"), "an ancestor that is a module comes first"
