import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class PINN(nn.Module):
    def __init__(self, width=64, depth=4):
        super().__init__()
        layers = [nn.Linear(2, width), nn.Tanh()]
        for _ in range(depth - 1):
            layers += [nn.Linear(width, width), nn.Tanh()]
        self.net = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, x, t):
        return self.net(torch.cat([x, t], dim=1))


def residual(model, x, t, nu=0.01 / torch.pi):
    x.requires_grad_(True)
    t.requires_grad_(True)
    u = model(x, t)
    u_t = torch.autograd.grad(u, t, torch.ones_like(u), create_graph=True)[0]
    u_x = torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)[0]
    u_xx = torch.autograd.grad(u_x, x, torch.ones_like(u_x), create_graph=True)[0]
    return u_t + u * u_x - nu * u_xx


model = PINN().to(device)
adam = torch.optim.Adam(model.parameters(), lr=1e-3)
lbfgs = torch.optim.LBFGS(model.parameters(), max_iter=500, line_search_fn="strong_wolfe")


def loss_fn():
    x = torch.rand(4096, 1, device=device) * 2 - 1
    t = torch.rand(4096, 1, device=device)
    x0 = torch.rand(256, 1, device=device) * 2 - 1
    u0 = -torch.sin(torch.pi * x0)
    tb = torch.rand(256, 1, device=device)
    xb = torch.where(torch.rand(256, 1, device=device) < 0.5, -1.0, 1.0)
    f = residual(model, x, t).pow(2).mean()
    ic = (model(x0, torch.zeros_like(x0)) - u0).pow(2).mean()
    bc = model(xb, tb).pow(2).mean()
    return f + ic + bc


for step in range(5000):
    adam.zero_grad()
    loss = loss_fn()
    loss.backward()
    adam.step()
    if step % 500 == 0:
        print(step, loss.item())


def closure():
    lbfgs.zero_grad()
    torch.manual_seed(1)
    loss = loss_fn()
    loss.backward()
    return loss


for _ in range(3):
    lbfgs.step(closure)
torch.save(model.state_dict(), "pinn.pt")
