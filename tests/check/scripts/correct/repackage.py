import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

def repackage(h):
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage(v) for v in h)
rnn = nn.LSTM(16, 32, batch_first=True).to(device)
head = nn.Linear(32, 4).to(device)
params = [*rnn.parameters(), *head.parameters()]
opt = torch.optim.SGD(params, lr=1.0)
hidden = (torch.zeros(1, 32, 32, device=device), torch.zeros(1, 32, 32, device=device))
for x, y in DataLoader(rows, batch_size=32, shuffle=True, drop_last=True, num_workers=2):
    hidden = repackage(hidden)
    out, hidden = rnn(x.to(device).unsqueeze(1), hidden)
    loss = F.cross_entropy(head(out[:, -1]), y.to(device))
    opt.zero_grad(); loss.backward()
    nn.utils.clip_grad_norm_(params, 0.25)
    opt.step()
