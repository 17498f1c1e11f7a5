"""Learn to recognise birds with Lightning: a module that leaves the loop to the framework, as it should."""

import argparse

import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
from torchvision.models import resnet50

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Birds(L.LightningDataModule):
    def __init__(self, folder, batch_size, workers):
        super().__init__()
        self.folder = folder
        self.settings = {"batch_size": batch_size, "num_workers": workers, "pin_memory": True}

    def setup(self, stage):
        tail = [transforms.ToTensor(), transforms.Normalize(MEAN, DEVIATION)]
        augmented = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()]
        plain = [transforms.Resize(256), transforms.CenterCrop(224)]
        self.training = datasets.ImageFolder(f"{self.folder}/train", transforms.Compose(augmented + tail))
        self.validation = datasets.ImageFolder(f"{self.folder}/validation", transforms.Compose(plain + tail))

    def train_dataloader(self):
        return DataLoader(self.training, shuffle=True, drop_last=True, persistent_workers=True, **self.settings)

    def val_dataloader(self):
        return DataLoader(self.validation, persistent_workers=True, **self.settings)


class Recogniser(L.LightningModule):
    def __init__(self, species=200, lr=3e-4, weight_decay=0.05):
        super().__init__()
        self.save_hyperparameters()
        self.network = resnet50(num_classes=species)

    def forward(self, images):
        return self.network(images)

    def training_step(self, batch, index):
        images, labels = batch
        loss = F.cross_entropy(self(images), labels, label_smoothing=0.1)
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch, index):
        images, labels = batch
        logits = self(images)
        self.log("validation/loss", F.cross_entropy(logits, labels), sync_dist=True)
        self.log("validation/accuracy", (logits.argmax(dim=1) == labels).float().mean(), sync_dist=True)

    def configure_optimizers(self):
        values = self.hparams
        optimizer = torch.optim.AdamW(self.parameters(), lr=values.lr, weight_decay=values.weight_decay, fused=True)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=self.trainer.max_epochs)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "epoch"}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="birds")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--workers", type=int, default=8)
    args = parser.parse_args()

    L.seed_everything(7, workers=True)
    trainer = L.Trainer(
        max_epochs=args.epochs,
        accelerator="gpu",
        devices=1,
        precision="bf16-mixed",
        gradient_clip_val=1.0,
        callbacks=[ModelCheckpoint(monitor="validation/accuracy", mode="max"), LearningRateMonitor()],
    )
    trainer.fit(Recogniser(), datamodule=Birds(args.data, args.batch_size, args.workers))


if __name__ == "__main__":
    main()
