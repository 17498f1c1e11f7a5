"""Lightning's own loop: two batches accumulated for a step, clipping, a schedule in steps, validation twice an epoch, dropout."""

import argparse
import tempfile
import warnings

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class Gestures(lightning.LightningModule):
    """Classifies short series of positions."""

    def __init__(self, kinds, rate, steps):
        super().__init__()
        self.save_hyperparameters()
        self.body = nn.Sequential(
            nn.Conv1d(2, 16, 5, padding=2),
            nn.BatchNorm1d(16),
            nn.GELU(),
            nn.MaxPool1d(2),
            nn.Conv1d(16, 24, 3, padding=1),
            nn.GELU(),
        )
        self.head = nn.Sequential(nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Dropout(0.2), nn.Linear(96, kinds))

    def forward(self, series):
        return self.head(self.body(series))

    def training_step(self, batch, index):
        series, kind = batch
        loss = nn.functional.cross_entropy(self(series), kind, label_smoothing=0.05)
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch, index):
        series, kind = batch
        scores = self(series)
        self.log("val/loss", nn.functional.cross_entropy(scores, kind), prog_bar=True)
        self.log("val/right", (scores.argmax(1) == kind).float().mean())

    def configure_optimizers(self):
        decayed = [one for one in self.parameters() if one.ndim > 1]
        others = [one for one in self.parameters() if one.ndim <= 1]
        groups = [{"params": decayed, "weight_decay": 0.02}, {"params": others, "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=self.hparams.rate)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, self.hparams.rate, total_steps=self.hparams.steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def draw(count, kinds, gen):
    kind = torch.randint(kinds, (count,), generator=gen)
    time = torch.linspace(0, 6.28, 32)
    turns = (kind + 1)[:, None] * time + torch.rand(count, 1, generator=gen)
    series = torch.stack([turns.cos(), turns.sin()], 1)
    return TensorDataset(series + 0.3 * torch.randn(series.shape, generator=gen), kind)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    lightning.seed_everything(args.seed, verbose=False)
    gen = torch.Generator().manual_seed(args.seed)
    train, held = random_split(draw(400, 5, gen), [320, 80], generator=gen)
    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(
            max_steps=args.steps,
            accumulate_grad_batches=2,
            gradient_clip_val=1.0,
            val_check_interval=0.5,
            accelerator="cpu",
            logger=False,
            default_root_dir=folder,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        model = Gestures(5, 5e-3, args.steps)
        trainer.fit(model, DataLoader(train, batch_size=16, shuffle=True), DataLoader(held, batch_size=40))
        print({name: round(value.item(), 4) for name, value in trainer.callback_metrics.items()})


if __name__ == "__main__":
    main()
