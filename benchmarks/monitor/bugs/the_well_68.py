"""A data module that normalises what is trained on and hands out what is validated on as it was measured."""
# source: https://github.com/PolymathicAI/the_well/issues/68
# first effect: step 10
# names: WellDataModule, val
# family: data
# detectable: yes the inputs of the evaluation are of another scale than those that the model is trained on

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class WellDataset(Dataset):
    """A field that is carried along a ring, in the units of its simulation."""

    def __init__(self, count, seed, use_normalization):
        generator = torch.Generator().manual_seed(seed)
        self.phase = torch.rand(count, 1, generator=generator) * 6.28
        self.waves = torch.randint(1, 4, (count, 1), generator=generator)
        self.use_normalization = use_normalization

    def __len__(self):
        return len(self.phase)

    def field(self, index, time):
        place = torch.linspace(0, 6.28, 32)
        return 300.0 + 25.0 * torch.sin(self.waves[index] * (place - 0.3 * time) + self.phase[index])

    def __getitem__(self, index):
        now, then = self.field(index, 0).unsqueeze(0), self.field(index, 1).unsqueeze(0)
        if self.use_normalization:
            now, then = (now - 300.0) / 18.0, (then - 300.0) / 18.0
        return {"input_fields": now, "output_fields": then}


class WellDataModule:
    def __init__(self, batch_size, seed, fixed, use_normalization=True):
        self.batch_size = batch_size
        self.train_dataset = WellDataset(160, seed, use_normalization)
        self.val_dataset = WellDataset(48, seed + 1, use_normalization and fixed)

    def train_dataloader(self):
        return DataLoader(self.train_dataset, self.batch_size, shuffle=True, drop_last=True)

    def val_dataloader(self):
        return DataLoader(self.val_dataset, self.batch_size)


class SpectralConv(nn.Module):
    def __init__(self, channels, modes):
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(channels, channels, modes, 2) / channels)

    def forward(self, x):
        waves = torch.fft.rfft(x)
        low = torch.einsum("bim,iom->bom", waves[..., : self.modes], torch.view_as_complex(self.weight))
        return torch.fft.irfft(nn.functional.pad(low, (0, waves.shape[-1] - self.modes)), n=x.shape[-1])


class FNO(nn.Module):
    def __init__(self, channels=12, modes=6):
        super().__init__()
        self.lift, self.project = nn.Conv1d(1, channels, 1), nn.Conv1d(channels, 1, 1)
        self.spectral = nn.ModuleList(SpectralConv(channels, modes) for _ in range(2))
        self.skip = nn.ModuleList(nn.Conv1d(channels, channels, 1) for _ in range(2))

    def forward(self, x):
        x = self.lift(x)
        for spectral, skip in zip(self.spectral, self.skip, strict=True):
            x = nn.functional.gelu(spectral(x) + skip(x))
        return self.project(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    data = WellDataModule(16, args.seed, args.fixed)
    model = FNO()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for epoch in range(args.steps // 10):
        model.train()
        for batch in data.train_dataloader():
            loss = nn.functional.mse_loss(model(batch["input_fields"]), batch["output_fields"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            errors = [
                nn.functional.mse_loss(model(b["input_fields"]), b["output_fields"]).item()
                for b in data.val_dataloader()
            ]
        print(f"Epoch {epoch + 1}: train {loss.item():.4f} val {sum(errors) / len(errors):.4f}")


if __name__ == "__main__":
    main()
