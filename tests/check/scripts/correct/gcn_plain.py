import numpy as np
import scipy.sparse as sp
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parameter import Parameter


class GraphConvolution(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.weight = Parameter(torch.empty(i, o))
        self.bias = Parameter(torch.zeros(o))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x, adj):
        return torch.sparse.mm(adj, x @ self.weight) + self.bias


class GCN(nn.Module):
    def __init__(self, i, h, c, p):
        super().__init__()
        self.gc1, self.gc2, self.p = GraphConvolution(i, h), GraphConvolution(h, c), p

    def forward(self, x, adj):
        x = F.relu(self.gc1(x, adj))
        x = F.dropout(x, self.p, training=self.training)
        return F.log_softmax(self.gc2(x, adj), dim=1)


def load(path="data/cora/"):
    raw = np.genfromtxt(path + "cora.content", dtype=np.dtype(str))
    feats = sp.csr_matrix(raw[:, 1:-1], dtype=np.float32)
    classes = sorted(set(raw[:, -1]))
    y = torch.tensor([classes.index(c) for c in raw[:, -1]])
    idx = {int(j): i for i, j in enumerate(raw[:, 0])}
    edges = np.array([[idx[int(a)], idx[int(b)]] for a, b in np.genfromtxt(path + "cora.cites", dtype=np.int32)])
    n = len(y)
    adj = sp.coo_matrix((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(n, n), dtype=np.float32)
    adj = adj + adj.T.multiply(adj.T > adj) + sp.eye(n)
    d = np.power(np.array(adj.sum(1)).flatten(), -1)
    adj = sp.diags(d).dot(adj).tocoo()
    i = torch.from_numpy(np.vstack((adj.row, adj.col)).astype(np.int64))
    return torch.sparse_coo_tensor(i, torch.from_numpy(adj.data), adj.shape), torch.from_numpy(np.asarray(feats.todense())), y


adj, x, y = load()
train, val, test = torch.arange(140), torch.arange(200, 500), torch.arange(500, 1500)
device = "cuda"
model = GCN(1433, 16, 7, 0.5).to(device)
opt = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
adj, x, y = adj.to(device), x.to(device), y.to(device)
train, val, test = train.to(device), val.to(device), test.to(device)
for epoch in range(200):
    model.train()
    opt.zero_grad()
    out = model(x, adj)
    loss = F.nll_loss(out[train], y[train])
    loss.backward()
    opt.step()
    model.eval()
    with torch.no_grad():
        out = model(x, adj)
        acc = (out[val].argmax(1) == y[val]).float().mean().item()
    print(epoch, loss.item(), acc)
model.eval()
with torch.no_grad():
    print((model(x, adj)[test].argmax(1) == y[test]).float().mean().item())
