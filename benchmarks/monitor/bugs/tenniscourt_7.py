"""A trainer of heatmaps that never clears the gradients."""
# source: https://github.com/yastrebksv/TennisCourtDetector/issues/7
# first effect: step 1
# names: zero_grad, conv
# family: gradients
# detectable: yes gradients are added up over all steps and nothing clears them

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Courts(Dataset):
    def __init__(self, count, seed):
        self.points = torch.randint(2, 10, (count, 2), generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.points)

    def __getitem__(self, index):
        grid = torch.stack(torch.meshgrid(torch.arange(12.0), torch.arange(12.0), indexing="ij"))
        heat = torch.exp(-(grid - self.points[index].view(2, 1, 1)).square().sum(0) / 3)[None]
        image = (grid == self.points[index].view(2, 1, 1)).any(0).float()[None]
        return image + 0.1 * torch.randn_like(image), heat


class TrackNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn = nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12)
        self.conv2, self.conv3 = nn.Conv2d(12, 12, 3, padding=1), nn.Conv2d(12, 1, 3, padding=1)

    def forward(self, x):
        return torch.sigmoid(self.conv3(torch.relu(self.conv2(torch.relu(self.bn(self.conv1(x)))))))


def train(model, loader, optimizer, criterion, max_iters, fixed):
    model.train()
    losses = []
    for iter_id, (image, heat) in enumerate(loader):
        if iter_id == max_iters:
            break
        loss = criterion(model(image), heat)
        if fixed:
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = TrackNet()
    loader = DataLoader(Courts(160, args.seed), 16, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.999))
    for epoch in range(args.steps // len(loader)):
        print(f"epoch {epoch}: {train(model, loader, optimizer, nn.MSELoss(), 10, args.fixed):.4f}")


if __name__ == "__main__":
    main()
