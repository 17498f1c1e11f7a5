"""LSTM and GRU: python recurrent.py CASE."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from training import DEVICE, named, train

CASES: dict[str, dict[str, Any]] = {
    "lstm": {"cell": "LSTM", "optimizer": "adam", "clip": 0.25},
    "lstm-dropout": {"cell": "LSTM", "dropout": 0.2, "optimizer": "momentum"},
    "gru": {"cell": "GRU", "optimizer": "adam"},
    "lstm-cell": {"cell": "LSTMCell", "optimizer": "adam"},
}


class LanguageModel(nn.Module):
    """Embedding, recurrent layers, projection to the vocabulary."""

    def __init__(self, cell: str, vocabulary: int, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.stepwise = cell == "LSTMCell"
        if self.stepwise:
            self.cell: nn.Module = nn.LSTMCell(width, width)
        else:
            self.cell = getattr(nn, cell)(width, width, layers, dropout=dropout, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits of the next tokens."""
        x = self.embedding(tokens)
        if self.stepwise:
            state, seen = None, []
            for at in range(x.shape[1]):
                state = self.cell(x[:, at], state)
                seen.append(state[0])
            return self.head(torch.stack(seen, 1))
        return self.head(self.cell(x)[0])


def main(cell: str, dropout: float = 0.0, batch: int = 16, length: int = 32, **how: Any) -> None:
    """Train on random tokens."""
    model = LanguageModel(cell, vocabulary=2000, width=256, layers=2, dropout=dropout)

    def batches() -> tuple[torch.Tensor, torch.Tensor]:
        tokens = torch.randint(0, 2000, (batch, length + 1), device=DEVICE)
        return tokens[:, :-1], tokens[:, 1:]

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())

    train(model, batches, loss, **how)


if __name__ == "__main__":
    main(**named(CASES))
