"""A Lightning module that steps its optimizers itself and forgets that its schedules are then its own affair, too."""
# source: https://github.com/voicepaw/so-vits-svc-fork/pull/291
# first effect: step 16
# names: ExponentialLR, lr
# family: schedule
# detectable: yes two schedules are made and never stepped, epoch after epoch

import argparse
import logging
import warnings

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

import lightning.pytorch as pl  # noqa: E402


class Vocoder(pl.LightningModule):
    def __init__(self, fixed):
        super().__init__()
        self.automatic_optimization = False
        self.fixed = fixed
        self.net_g = nn.Sequential(nn.Conv1d(8, 24, 3, padding=1), nn.LeakyReLU(0.1), nn.Conv1d(24, 4, 1))
        self.net_d = nn.Sequential(nn.Conv1d(1, 12, 5, 2), nn.LeakyReLU(0.1), nn.Conv1d(12, 1, 5, 2))

    def forward(self, mel):
        wave = torch.tanh(self.net_g(mel))
        return wave.transpose(1, 2).flatten(1).unsqueeze(1)

    def training_step(self, batch, index):
        mel, real = batch
        optim_g, optim_d = self.optimizers()
        fake = self(mel)
        loss_d = (1 - self.net_d(real)).square().mean() + self.net_d(fake.detach()).square().mean()
        optim_d.zero_grad()
        self.manual_backward(loss_d)
        optim_d.step()
        self.toggle_optimizer(optim_g)
        loss_g = (1 - self.net_d(fake)).square().mean() + 10 * F.l1_loss(fake, real)
        optim_g.zero_grad()
        self.manual_backward(loss_g)
        optim_g.step()
        self.untoggle_optimizer(optim_g)

    def on_train_epoch_end(self):
        if self.fixed:
            for scheduler in self.lr_schedulers():
                scheduler.step()
        print(f"epoch {self.current_epoch}, lr {self.optimizers()[0].param_groups[0]['lr']:.2e}")

    def configure_optimizers(self):
        optim_g = torch.optim.AdamW(self.net_g.parameters(), 1e-3, betas=(0.8, 0.99))
        optim_d = torch.optim.AdamW(self.net_d.parameters(), 1e-3, betas=(0.8, 0.99))
        schedulers = [torch.optim.lr_scheduler.ExponentialLR(o, gamma=0.9) for o in (optim_g, optim_d)]
        return [optim_g, optim_d], schedulers


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=64)
    args = parser.parse_args()

    pl.seed_everything(args.seed, verbose=False)
    mel = torch.randn(64, 8, 10)
    wave = torch.tanh(mel[:, :4].transpose(1, 2).flatten(1).unsqueeze(1))
    loader = DataLoader(TensorDataset(mel, wave), 8, shuffle=True)
    trainer = pl.Trainer(
        max_epochs=args.steps // 16,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Vocoder(args.fixed), loader)


if __name__ == "__main__":
    main()
