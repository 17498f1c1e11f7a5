"""A network of four layers of 8192 in fp32, with TF32 allowed: batches of 4096 from a loader with workers."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    data = TensorDataset(torch.randn(4096 * 12, 512), torch.randint(0, 100, (4096 * 12,)))
    loader = DataLoader(data, batch_size=4096, shuffle=True, num_workers=2, pin_memory=True)
    layers = [nn.Linear(512, 8192), nn.ReLU()]
    for _ in range(4):
        layers += [nn.Linear(8192, 8192), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(8192, 100)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    criterion = nn.CrossEntropyLoss()
    for inputs, labels in loader:
        inputs, labels = inputs.cuda(non_blocking=True), labels.cuda(non_blocking=True)
        loss = criterion(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
