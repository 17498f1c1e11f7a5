import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

import gymnasium as gym
env = gym.make("CartPole-v1")
pi = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
opt = torch.optim.Adam(pi.parameters(), lr=1e-2)
for episode in range(500):
    s, _ = env.reset(seed=episode)
    logps, rewards, done = [], [], False
    while not done:
        d = torch.distributions.Categorical(logits=pi(torch.as_tensor(s, dtype=torch.float32)))
        a = d.sample()
        logps.append(d.log_prob(a))
        s, r, term, trunc, _ = env.step(a.item())
        rewards.append(r)
        done = term or trunc
    g, returns = 0.0, []
    for r in reversed(rewards):
        g = r + 0.99 * g
        returns.insert(0, g)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + 1e-8)
    loss = -(torch.stack(logps) * returns).sum()
    opt.zero_grad(); loss.backward(); opt.step()
