"""Training in functional style: torch.func.grad_and_value on a dict of parameters, Adam's state kept by hand."""

import argparse

import torch
from torch import nn
from torch.func import functional_call, grad_and_value


def init_adam(params):
    return {
        "t": 0,
        "m": {k: torch.zeros_like(v) for k, v in params.items()},
        "v": {k: torch.zeros_like(v) for k, v in params.items()},
    }


def adam(params, grads, state, lr=1e-2, b1=0.9, b2=0.99, eps=1e-8):
    t = state["t"] + 1
    m = {k: b1 * state["m"][k] + (1 - b1) * g for k, g in grads.items()}
    v = {k: b2 * state["v"][k] + (1 - b2) * g * g for k, g in grads.items()}
    new = {k: p - lr * (m[k] / (1 - b1**t)) / ((v[k] / (1 - b2**t)).sqrt() + eps) for k, p in params.items()}
    return new, {"t": t, "m": m, "v": v}


def main():
    cli = argparse.ArgumentParser()
    cli.add_argument("--seed", type=int, default=0)
    cli.add_argument("--steps", type=int, default=60)
    cli.add_argument("--size", type=int, default=24)
    a = cli.parse_args()
    torch.manual_seed(a.seed)
    net = nn.Sequential(nn.Linear(1, a.size), nn.Tanh(), nn.Linear(a.size, a.size), nn.Tanh(), nn.Linear(a.size, 1))
    params = {k: v.detach().clone() for k, v in net.named_parameters()}

    def loss_fn(params, x, y):
        return ((functional_call(net, params, (x,)) - y) ** 2).mean()

    step_fn = grad_and_value(loss_fn)
    state = init_adam(params)
    for step in range(a.steps):
        x = torch.rand(64, 1) * 4 - 2
        grads, loss = step_fn(params, x, torch.sin(3 * x))
        params, state = adam(params, grads, state)
        if step % 12 == 0:
            print(step, f"{loss.item():.5f}")
    net.load_state_dict(params)
    x = torch.linspace(-2, 2, 50).unsqueeze(1)
    with torch.no_grad():
        print("final", ((net(x) - torch.sin(3 * x)) ** 2).mean().item())


if __name__ == "__main__":
    main()
