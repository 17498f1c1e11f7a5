"""An optimizer is made, then the model's weights are put into one flat parameter that the optimizer does not know."""
# source: https://github.com/huggingface/accelerate/issues/2665
# first effect: step 0
# names: flat
# family: optimizer
# detectable: yes the parameter that receives gradients is in no optimizer and never changes

import argparse

import torch
from torch import nn
from torch.func import functional_call


class Flattened(nn.Module):
    """Keeps all weights of a module in one parameter, as sharding with flat parameters does."""

    def __init__(self, module):
        super().__init__()
        named = [(n, p.detach()) for n, p in module.named_parameters()]
        self.shapes = {n: p.shape for n, p in named}
        self.flat = nn.Parameter(torch.cat([p.reshape(-1) for _, p in named]))
        for owner in module.modules():
            for name in list(owner._parameters):
                del owner._parameters[name]
        self.inner = [module]  # in a list, so that it is no submodule

    def forward(self, x):
        pieces = self.flat.split([shape.numel() for shape in self.shapes.values()])
        weights = {n: piece.view(shape) for (n, shape), piece in zip(self.shapes.items(), pieces, strict=True)}
        return functional_call(_restored(self.inner[0], self.shapes), weights, (x,))


def _restored(module, shapes):
    for name in shapes:
        owner, _, last = name.rpartition(".")
        holder = module.get_submodule(owner)
        if last not in holder._parameters:
            holder.register_parameter(last, None)
            holder._parameters[last] = nn.Parameter(torch.empty(shapes[name], device="meta"), requires_grad=False)
    return module


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=25)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 3))
    if not args.fixed:
        optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    model = Flattened(model)
    if args.fixed:
        optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for step in range(args.steps):
        x = torch.randn(32, 8)
        loss = nn.functional.cross_entropy(model(x), x[:, :3].argmax(dim=1))
        model.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 8 == 0:
            print(f"{step:3d} {loss.item():.4f}")
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
