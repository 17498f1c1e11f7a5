"""A Trainer class written by hand, with callbacks for logging, evaluation and checkpoints, driven by a dataclass."""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import tempfile

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset


@dataclasses.dataclass
class Config:
    seed: int = 3407
    steps: int = 60
    size: int = 48
    batch_size: int = 32
    lr: float = 3e-3
    grad_norm: float = 1.0
    eval_every: int = 20


class Callback:
    def on_step_end(self, trainer: Trainer) -> None: ...

    def on_train_end(self, trainer: Trainer) -> None: ...


class Logger(Callback):
    def __init__(self, every: int) -> None:
        self.every = every

    def on_step_end(self, trainer: Trainer) -> None:
        if trainer.step % self.every == 0:
            print(f"[{trainer.step:>4}] loss={trainer.loss.item():.4f} grad={float(trainer.grad_norm):.3f}")


class Evaluate(Callback):
    def __init__(self, dataset: Dataset, every: int) -> None:
        self.loader, self.every = DataLoader(dataset, batch_size=128), every

    def on_step_end(self, trainer: Trainer) -> None:
        if trainer.step % self.every:
            return
        trainer.model.eval()
        with torch.no_grad():
            hits = sum(int((trainer.model(x).argmax(-1) == y).sum()) for x, y in self.loader)
        trainer.model.train()
        print(f"[{trainer.step:>4}] accuracy={hits / len(self.loader.dataset):.3f}")


class Checkpoint(Callback):
    def __init__(self, folder: pathlib.Path, every: int) -> None:
        self.folder, self.every = folder, every

    def on_step_end(self, trainer: Trainer) -> None:
        if trainer.step % self.every == 0:
            torch.save(
                {"model": trainer.model.state_dict(), "optim": trainer.optimizer.state_dict()}, self.folder / "last.pt"
            )

    def on_train_end(self, trainer: Trainer) -> None:
        saved = self.folder / "last.pt"
        if saved.exists():
            print("checkpoint holds", len(torch.load(saved, weights_only=True)["model"]), "tensors")


class Trainer:
    def __init__(self, config: Config, model: nn.Module, data: Dataset, callbacks: list[Callback]) -> None:
        self.config, self.model, self.callbacks = config, model, callbacks
        self.loader = DataLoader(data, config.batch_size, shuffle=True, drop_last=True)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=config.lr)
        self.step = 0
        self.loss: Tensor = torch.tensor(float("nan"))
        self.grad_norm: Tensor = torch.tensor(0.0)

    def batches(self):
        while True:
            yield from self.loader

    def training_step(self, x: Tensor, y: Tensor) -> Tensor:
        return nn.functional.cross_entropy(self.model(x), y)

    def fit(self) -> None:
        self.model.train()
        for x, y in self.batches():
            self.loss = self.training_step(x, y)
            self.optimizer.zero_grad(set_to_none=True)
            self.loss.backward()
            self.grad_norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.config.grad_norm)
            self.optimizer.step()
            self.step += 1
            for callback in self.callbacks:
                callback.on_step_end(self)
            if self.step >= self.config.steps:
                break
        for callback in self.callbacks:
            callback.on_train_end(self)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=Config.seed)
    parser.add_argument("--steps", type=int, default=Config.steps)
    parser.add_argument("--size", type=int, default=Config.size)
    config = Config(**vars(parser.parse_args()))
    torch.manual_seed(config.seed)
    x = torch.randn(600, 12)
    y = (x @ torch.randn(12, 6)).argmax(1)
    model = nn.Sequential(nn.Linear(12, config.size), nn.GELU(), nn.Dropout(0.1), nn.Linear(config.size, 6))
    with tempfile.TemporaryDirectory() as folder:
        callbacks = [
            Logger(10),
            Evaluate(TensorDataset(x[500:], y[500:]), config.eval_every),
            Checkpoint(pathlib.Path(folder), 25),
        ]
        Trainer(config, model, TensorDataset(x[:500], y[:500]), callbacks).fit()


if __name__ == "__main__":
    main()
