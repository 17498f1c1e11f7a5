"""A language model of two LSTM layers of 1024 in fp32: batches of 64 x 128 with the state carried on."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(33000, 1024)
        self.lstm = nn.LSTM(1024, 1024, num_layers=2, dropout=0.5, batch_first=True)
        self.out = nn.Linear(1024, 33000)

    def forward(self, tokens, state):
        x, state = self.lstm(self.embed(tokens), state)
        return self.out(x), state


torch.manual_seed(0)
model = Net().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
state = None

for step in range(15):
    tokens = torch.randint(0, 33000, (64, 129), device="cuda")
    logits, state = model(tokens[:, :-1], state)
    state = tuple(part.detach() for part in state)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    optimizer.step()
print(f"loss {loss.item():.3f}")
