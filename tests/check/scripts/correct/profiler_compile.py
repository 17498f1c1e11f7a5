import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule, tensorboard_trace_handler
from torch.utils.data import DataLoader, TensorDataset


class Mixer(nn.Module):
    def __init__(self, tokens=64, dim=256, depth=6, classes=10):
        super().__init__()
        self.token = nn.ModuleList([nn.Sequential(nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens)) for _ in range(depth)])
        self.channel = nn.ModuleList([nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)) for _ in range(depth)])
        self.norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(2 * depth)])
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        for i, (t, c) in enumerate(zip(self.token, self.channel)):
            x = x + t(self.norms[2 * i](x).transpose(1, 2)).transpose(1, 2)
            x = x + c(self.norms[2 * i + 1](x))
        return self.head(x.mean(1))


def main():
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    data = TensorDataset(torch.randn(2048, 64, 256), torch.randint(0, 10, (2048,)))
    loader = DataLoader(data, batch_size=128, shuffle=True, pin_memory=True, num_workers=2)
    model = torch.compile(Mixer().cuda(), mode="max-autotune")
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], schedule=schedule(wait=1, warmup=1, active=3), on_trace_ready=tensorboard_trace_handler("./log")) as prof:
        for epoch in range(2):
            for x, y in loader:
                with record_function("step"):
                    x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
                    loss = nn.functional.cross_entropy(model(x), y)
                    opt.zero_grad(set_to_none=True)
                    loss.backward()
                    opt.step()
                prof.step()


if __name__ == "__main__":
    main()
