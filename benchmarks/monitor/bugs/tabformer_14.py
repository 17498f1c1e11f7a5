"""A transformer over the fields of transactions that takes the rows of the batch for the sequence."""
# source: https://github.com/IBM/TabFormer/pull/14
# first effect: step 0
# names: transformer_encoder, self_attn
# family: data
# detectable: yes the attention's sequence is as long as the batch is large, and gets shorter with the last one of an epoch

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Fields(nn.Module):
    def __init__(self, fields, vocabulary, width, fixed):
        super().__init__()
        self.embeddings = nn.Embedding(vocabulary, width)
        self.field = nn.Parameter(torch.randn(fields, width) * 0.02)
        layer = nn.TransformerEncoderLayer(d_model=width, nhead=4, dim_feedforward=2 * width, dropout=0.1)
        self.transformer_encoder = nn.TransformerEncoder(layer, num_layers=1, enable_nested_tensor=False)
        self.lin_proj = nn.Linear(fields * width, 2)
        self.fixed = fixed

    def forward(self, rows):
        embedded = self.embeddings(rows) + self.field
        if self.fixed:
            mixed = self.transformer_encoder(embedded.transpose(0, 1)).transpose(0, 1)
        else:
            mixed = self.transformer_encoder(embedded)
        return self.lin_proj(mixed.flatten(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=44)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    rows = torch.randint(30, (250, 6))
    fraud = ((rows[:, 0] + rows[:, 3]) % 5 == 0).long()
    loader = DataLoader(TensorDataset(rows, fraud), batch_size=24, shuffle=True)
    model = Fields(6, 30, 16, args.fixed)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    weight = torch.tensor([1.0, 3.0])
    for epoch in range(args.steps // len(loader)):
        total = 0.0
        for batch, labels in loader:
            loss = nn.functional.cross_entropy(model(batch), labels, weight=weight)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: {total / len(loader):.4f}")


if __name__ == "__main__":
    main()
