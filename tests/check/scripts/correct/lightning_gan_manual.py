import pytorch_lightning as pl
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


class GAN(pl.LightningModule):
    def __init__(self, latent=100, lr=2e-4):
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.g = nn.Sequential(nn.Linear(latent, 256), nn.LeakyReLU(0.2, inplace=True), nn.Linear(256, 512), nn.LeakyReLU(0.2, inplace=True), nn.Linear(512, 784), nn.Tanh())
        self.d = nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.LeakyReLU(0.2, inplace=True), nn.Linear(512, 1))

    def forward(self, z):
        return self.g(z).view(-1, 1, 28, 28)

    def training_step(self, batch, batch_idx):
        imgs, _ = batch
        og, od = self.optimizers()
        z = torch.randn(imgs.shape[0], self.hparams.latent).type_as(imgs)
        self.toggle_optimizer(og)
        fake = self(z)
        real_label = torch.ones(imgs.size(0), 1).type_as(imgs)
        g_loss = F.binary_cross_entropy_with_logits(self.d(fake), real_label)
        og.zero_grad()
        self.manual_backward(g_loss)
        og.step()
        self.untoggle_optimizer(og)
        self.toggle_optimizer(od)
        real = F.binary_cross_entropy_with_logits(self.d(imgs), real_label)
        fake_loss = F.binary_cross_entropy_with_logits(self.d(self(z).detach()), torch.zeros_like(real_label))
        d_loss = (real + fake_loss) / 2
        od.zero_grad()
        self.manual_backward(d_loss)
        od.step()
        self.untoggle_optimizer(od)
        self.log_dict({"g": g_loss, "d": d_loss}, prog_bar=True)

    def configure_optimizers(self):
        og = torch.optim.Adam(self.g.parameters(), lr=self.hparams.lr, betas=(0.5, 0.999))
        od = torch.optim.Adam(self.d.parameters(), lr=self.hparams.lr, betas=(0.5, 0.999))
        return [og, od], []


def main():
    tf = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,), (0.5,))])
    dl = DataLoader(datasets.MNIST(".", train=True, download=True, transform=tf), batch_size=256, shuffle=True, num_workers=4)
    trainer = pl.Trainer(max_epochs=20, accelerator="gpu", devices=1)
    trainer.fit(GAN(), dl)


if __name__ == "__main__":
    main()
