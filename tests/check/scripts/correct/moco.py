import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

q = nn.Linear(16, 8).to(device)
k = nn.Linear(16, 8).to(device)
k.load_state_dict(q.state_dict())
for p in k.parameters():
    p.requires_grad = False
queue = F.normalize(torch.randn(8, 512, device=device), dim=0)
opt = torch.optim.SGD(q.parameters(), lr=0.03, momentum=0.9)
for x, _ in loader:
    x = x.to(device)
    a = F.normalize(q(x), dim=1)
    with torch.no_grad():
        for pq, pk in zip(q.parameters(), k.parameters()):
            pk.data = pk.data * 0.999 + pq.data * 0.001
        b = F.normalize(k(x), dim=1)
    pos = torch.einsum("nc,nc->n", a, b).unsqueeze(-1)
    neg = torch.einsum("nc,ck->nk", a, queue.clone().detach())
    logits = torch.cat([pos, neg], dim=1) / 0.07
    labels = torch.zeros(logits.size(0), dtype=torch.long, device=device)
    loss = F.cross_entropy(logits, labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
    queue = torch.cat([b.T, queue], dim=1)[:, :512]
