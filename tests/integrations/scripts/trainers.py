"""Trains with each trainer and its callback in one process, trackers offline; writes what came of it to ``done.json``."""

import json
from pathlib import Path

import lightning
import torch
import wandb
from accelerate import Accelerator
from lightning.pytorch.loggers import CSVLogger, MLFlowLogger, TensorBoardLogger
from transformers import Trainer, TrainerCallback, TrainingArguments

import preflight
from preflight.integrations.accelerate import PreflightTracker
from preflight.integrations.lightning import PreflightCallback as LightningCallback
from preflight.integrations.torchtitan import monitored
from preflight.integrations.trackers.prometheus import Prometheus
from preflight.integrations.trackers.tensorboard import TensorBoard
from preflight.integrations.transformers import PreflightCallback

torch.set_num_threads(1)
DATA = [{"x": torch.sin(torch.arange(8) * (i + 1.0)), "labels": torch.tensor(i % 2)} for i in range(64)]
done = {}


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))


class NeverCleared(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = network()

    def forward(self, x, labels):
        return {"loss": torch.nn.functional.cross_entropy(self.net(x), labels)}

    def zero_grad(self, set_to_none=True):
        pass


def told(watching):
    report = watching.report
    return {"verdict": report.verdict, "relations": [one.relation for one in report.violations], "folder": str(watching.folder)}


def transformers_trainer(*callbacks, report_to=()):
    arguments = TrainingArguments(
        "out", per_device_train_batch_size=4, num_train_epochs=1, report_to=list(report_to), logging_steps=4,
        save_strategy="no", use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    trainer = Trainer(model=NeverCleared(), args=arguments, train_dataset=DATA, callbacks=list(callbacks))
    trainer.train()
    return [one["loss"] for one in trainer.state.log_history if "loss" in one]


class Generators(TrainerCallback):
    """Says at the end which random number would come next."""

    def on_train_end(self, *words, **more):
        self.next = torch.get_rng_state().sum().item()


before, after = Generators(), Generators()
alone = transformers_trainer(before)
callback = PreflightCallback("hf-trace", trackers=None)
watched = transformers_trainer(callback, after, report_to=["tensorboard", "wandb", "mlflow"])
wandb.finish()
done["transformers"] = {**told(callback.watching), "alone": alone, "watched": watched, "generators": [before.next, after.next]}


class Lit(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = network()

    def training_step(self, batch, index):
        return torch.nn.functional.cross_entropy(self.net(batch["x"]), batch["labels"])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def fit(callbacks, loggers, module=None):
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", callbacks=callbacks, logger=loggers, enable_progress_bar=False,
        enable_model_summary=False, enable_checkpointing=False, log_every_n_steps=4,
    )  # fmt: skip
    loader = torch.utils.data.DataLoader(DATA, batch_size=4, shuffle=True)
    trainer.fit(module or Lit(), loader)


lit = LightningCallback("lit-trace")
loggers = [
    TensorBoardLogger("lit", name="tb", version="0"),
    MLFlowLogger("lit", tracking_uri=Path("lit-mlruns").absolute().as_uri()),
    CSVLogger("lit", name="csv"),
]
fit([lit], loggers)
done["lightning"] = told(lit.watching)


class Fails(Lit):
    def training_step(self, batch, index):
        if index == 6:
            raise RuntimeError("mine")
        return super().training_step(batch, index)


class Squashed(Lit):
    def training_step(self, batch, index):
        scores = self.net(batch["x"]).softmax(-1)
        return torch.nn.functional.cross_entropy(scores, batch["labels"])


squashed = LightningCallback("squashed-trace", trackers=[])
fit([squashed], False, Squashed())
done["squashed"] = [(one.relation, one.location.line) for one in squashed.watching.report.violations]


failing = LightningCallback("failing-trace", watch=False, trackers=[])
try:
    fit([failing], False, Fails())
except RuntimeError as error:
    done["raised"] = {"error": str(error), **told(failing.watching)}


tracker = PreflightTracker("acc-trace", watch=False)
accelerator = Accelerator(cpu=True, log_with=["tensorboard", tracker], project_dir="acc")
accelerator.init_trackers("run")
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
model, optimizer, loader = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(DATA, batch_size=4, shuffle=True))
for batch in loader:
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(batch["x"]), batch["labels"])
    accelerator.backward(loss)
    optimizer.step()
    accelerator.log({"loss": loss.item()})
accelerator.end_training()
done["accelerate"] = told(tracker.watching)


class TitanTrainer:
    """What torchtitan's ``Trainer`` has of an interface: it is built, ``train()`` runs to the end, ``close()`` follows."""

    def __init__(self):
        self.model = network()

    def train(self):
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        data = iter(torch.utils.data.DataLoader(DATA, batch_size=4, shuffle=True))
        for step in range(12):
            batch = next(data)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(self.model(batch["x"]), batch["labels"]).backward()
            optimizer.step()
        return "trained"


monitored(TitanTrainer, "titan-trace", watch=False, trackers=[TensorBoard("titan"), Prometheus(textfile="titan.prom")])
titan = TitanTrainer()
done["torchtitan"] = {"result": titan.train(), **told(titan.watching)}

prometheus = Prometheus(port=0)
with preflight.monitoring("plain-trace", watch=False, trackers=[prometheus]) as run:
    import urllib.request

    fetched = urllib.request.urlopen(f"http://127.0.0.1:{prometheus.port}/metrics").read().decode()
done["prometheus"] = {"fetched": fetched}
Path("done.json").write_text(json.dumps(done))
