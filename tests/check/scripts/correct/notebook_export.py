#!/usr/bin/env python
# coding: utf-8

# In[1]:
import pandas as pd
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import Dataset, DataLoader

# In[2]:
df = pd.read_csv("train.csv")
df.head()

# In[3]:
cat_cols = ["workclass", "education", "occupation"]
num_cols = ["age", "hours"]
for c in cat_cols:
    df[c] = df[c].astype("category").cat.codes.values
means, stds = df[num_cols].mean(), df[num_cols].std()
df[num_cols] = (df[num_cols] - means) / stds
msk = np.random.RandomState(0).rand(len(df)) < 0.8
train_df, valid_df = df[msk], df[~msk]


# In[4]:
class TabularData(Dataset):
    def __init__(self, frame):
        self.cats = torch.tensor(frame[cat_cols].values, dtype=torch.long)
        self.nums = torch.tensor(frame[num_cols].values, dtype=torch.float32)
        self.y = torch.tensor(frame["target"].values, dtype=torch.float32)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.cats[i], self.nums[i], self.y[i]


# In[5]:
class Net(nn.Module):
    def __init__(self, sizes=((10, 5), (16, 8), (15, 8)), n_num=2):
        super().__init__()
        self.embs = nn.ModuleList([nn.Embedding(a, b) for a, b in sizes])
        width = sum(b for _, b in sizes) + n_num
        self.layers = nn.Sequential(nn.Linear(width, 200), nn.ReLU(), nn.BatchNorm1d(200), nn.Dropout(0.3), nn.Linear(200, 70), nn.ReLU(), nn.Linear(70, 1))

    def forward(self, c, n):
        x = torch.cat([e(c[:, i]) for i, e in enumerate(self.embs)] + [n], 1)
        return self.layers(x).squeeze(1)


# In[6]:
device = "cuda" if torch.cuda.is_available() else "cpu"
train_dl = DataLoader(TabularData(train_df), batch_size=256, shuffle=True)
valid_dl = DataLoader(TabularData(valid_df), batch_size=512)
model = Net().to(device)
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
crit = nn.BCEWithLogitsLoss()

# In[7]:
history = []
for epoch in range(10):
    model.train()
    for c, n, y in train_dl:
        c, n, y = c.to(device), n.to(device), y.to(device)
        loss = crit(model(c, n), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    preds, ys = [], []
    with torch.no_grad():
        for c, n, y in valid_dl:
            preds.append(torch.sigmoid(model(c.to(device), n.to(device))).cpu())
            ys.append(y)
    preds, ys = torch.cat(preds), torch.cat(ys)
    history.append({"epoch": epoch, "acc": ((preds > 0.5) == (ys > 0.5)).float().mean().item()})

# In[8]:
pd.DataFrame(history).to_csv("history.csv", index=False)
