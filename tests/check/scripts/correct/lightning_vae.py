import lightning as L
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, random_split
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
from torchvision import transforms
from torchvision.datasets import MNIST


class MNISTData(L.LightningDataModule):
    def __init__(self, root: str = "./data", batch_size: int = 128):
        super().__init__()
        self.save_hyperparameters()
        self.tf = transforms.ToTensor()

    def prepare_data(self):
        MNIST(self.hparams.root, train=True, download=True)
        MNIST(self.hparams.root, train=False, download=True)

    def setup(self, stage=None):
        full = MNIST(self.hparams.root, train=True, transform=self.tf)
        self.train_set, self.val_set = random_split(full, [55000, 5000], generator=torch.Generator().manual_seed(42))

    def train_dataloader(self):
        return DataLoader(self.train_set, batch_size=self.hparams.batch_size, shuffle=True, num_workers=4, persistent_workers=True)

    def val_dataloader(self):
        return DataLoader(self.val_set, batch_size=self.hparams.batch_size, num_workers=4, persistent_workers=True)


class VAE(L.LightningModule):
    def __init__(self, latent: int = 20, lr: float = 1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.enc = nn.Sequential(nn.Flatten(), nn.Linear(784, 400), nn.ReLU())
        self.mu = nn.Linear(400, latent)
        self.logvar = nn.Linear(400, latent)
        self.dec = nn.Sequential(nn.Linear(latent, 400), nn.ReLU(), nn.Linear(400, 784))

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.dec(z), mu, logvar

    def _loss(self, batch):
        x, _ = batch
        logits, mu, logvar = self(x)
        bce = nn.functional.binary_cross_entropy_with_logits(logits, x.flatten(1), reduction="sum") / x.size(0)
        kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp()) / x.size(0)
        return bce + kld

    def training_step(self, batch, batch_idx):
        loss = self._loss(batch)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self._loss(batch), prog_bar=True)

    def configure_optimizers(self):
        opt = optim.Adam(self.parameters(), lr=self.hparams.lr)
        sched = optim.lr_scheduler.ReduceLROnPlateau(opt, patience=3)
        return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "monitor": "val_loss"}}


if __name__ == "__main__":
    L.seed_everything(42, workers=True)
    trainer = L.Trainer(
        max_epochs=30, accelerator="auto", devices=1, gradient_clip_val=1.0,
        callbacks=[ModelCheckpoint(monitor="val_loss", save_top_k=2), EarlyStopping("val_loss", patience=5), LearningRateMonitor()],
    )
    trainer.fit(VAE(), datamodule=MNISTData())
