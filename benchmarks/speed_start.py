"""How long one `preflight check` takes, in units of `python -c "import click"`, the least any such command costs.

Both are whole processes that are started in turn, so that what else the machine does falls on both alike.
The figure is CPU time (user and system) of the finished child; the report goes to a pipe, as in CI.

    python benchmarks/speed_start.py                        a script of 500 lines that is written for it
    python benchmarks/speed_start.py train.py other.py      these instead
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from speed_measure import Cost, median_of, run, table

HEAVY = ("torch", "numpy", "duckdb", "rich", "plotly", "libcst")
COMMAND = "from preflight.cli.main import main; import sys; sys.exit(main())"


def generated(folder: Path) -> Path:
    """Write a training script of 500 lines: options, a data set, a network of blocks, evaluation, checkpoints."""
    blocks = "\n\n".join(_BLOCK.format(number=number) for number in range(15))
    layers = "\n".join(f"        self.stage{n} = Block{n}(args.width)" for n in range(15))
    calls = "\n".join(f"        x = self.stage{n}(x)" for n in range(15))
    text = _SCRIPT.format(blocks=blocks, layers=layers, calls=calls)
    text += "\n".join(f"# {number}" for number in range(text.count("\n") + 1, 501)) + "\n"
    path = folder / "train.py"
    path.write_text(text)
    return path


_BLOCK = '''class Block{number}(nn.Module):
    """One residual block."""

    def __init__(self, width, dropout=0.1):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 8, dropout=dropout, batch_first=True)
        self.inner = nn.Linear(width, 4 * width)
        self.outer = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        y = self.norm1(x)
        y, _ = self.attention(y, y, y, need_weights=False)
        x = x + self.dropout(y)
        y = F.gelu(self.inner(self.norm2(x)))
        return x + self.dropout(self.outer(y))
'''

_SCRIPT = """import argparse
import os
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="data")
    parser.add_argument("--output", default="runs")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument("--weight-decay", type=float, default=0.05)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resume", default="")
    return parser.parse_args()


class Lines(Dataset):
    def __init__(self, folder, part, length):
        self.items = torch.load(os.path.join(folder, part + ".pt"), weights_only=True)
        self.length = length

    def __len__(self):
        return len(self.items) - 1

    def __getitem__(self, index):
        row = self.items[index]
        return row[: self.length], row[1 : self.length + 1]


{blocks}


class Network(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.embedding = nn.Embedding(args.vocabulary, args.width)
        self.position = nn.Parameter(torch.zeros(1, args.length, args.width))
{layers}
        self.norm = nn.LayerNorm(args.width)
        self.head = nn.Linear(args.width, args.vocabulary)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.position[:, : tokens.size(1)]
{calls}
        return self.head(self.norm(x))


@torch.no_grad()
def evaluate(model, loader, criterion, device):
    model.eval()
    total, count = 0.0, 0
    for tokens, targets in loader:
        tokens, targets = tokens.to(device), targets.to(device)
        logits = model(tokens)
        total += criterion(logits.flatten(0, 1), targets.flatten()).item() * targets.numel()
        count += targets.numel()
    return total / max(count, 1)


def train_epoch(args, model, loader, criterion, optimizer, scheduler, scaler, device):
    model.train()
    running = 0.0
    for step, (tokens, targets) in enumerate(loader):
        tokens, targets = tokens.to(device), targets.to(device)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.float16, enabled=args.amp):
            logits = model(tokens)
            loss = criterion(logits.flatten(0, 1), targets.flatten())
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        running += loss.item()
        if step % 100 == 0:
            print(step, running / (step + 1))


def main():
    args = options()
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_loader = DataLoader(
        Lines(args.data, "train", args.length),
        batch_size=args.batch_size,
        shuffle=True,
        num_workers=args.workers,
        pin_memory=True,
        drop_last=True,
    )
    valid_loader = DataLoader(Lines(args.data, "valid", args.length), batch_size=args.batch_size, num_workers=2)
    model = Network(args).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=args.weight_decay)
    steps = args.epochs * len(train_loader)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
    best = float("inf")
    for epoch in range(args.epochs):
        train_epoch(args, model, train_loader, criterion, optimizer, scheduler, scaler, device)
        loss = evaluate(model, valid_loader, criterion, device)
        if loss < best:
            best = loss
            state = dict(model=model.state_dict(), optimizer=optimizer.state_dict(), epoch=epoch)
            torch.save(state, os.path.join(args.output, "best.pt"))
        print(epoch, loss, best)


if __name__ == "__main__":
    main()
"""


def heavy_imports(script: str) -> list[str]:
    """The heavy libraries that a check of a script imports."""
    tell = f"import sys\ntry:\n    from preflight.cli.main import main\n    main(['check', {script!r}])\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", tell], capture_output=True, text=True, check=False)
    return sorted({name.partition(".")[0] for name in done.stderr.split()} & set(HEAVY))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scripts", nargs="*")
    parser.add_argument("--runs", type=int, default=11)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scripts = given.scripts or [str(generated(Path(folder)))]
        unit = [sys.executable, "-c", "import click"]
        rows = []
        for script in scripts:
            command = [sys.executable, "-c", COMMAND, "check", script]
            run(unit), run(command)  # writes the bytecode, warms the file cache
            pairs: list[tuple[Cost, Cost]] = [(run(unit), run(command)) for _ in range(given.runs)]
            base, cost = median_of([p[0] for p in pairs]), median_of([p[1] for p in pairs])
            lines = len(Path(script).read_bytes().splitlines())
            imports = " ".join(heavy_imports(script)) or "none"
            name = os.path.join(*Path(script).parts[-2:]) if given.scripts else "generated"
            rows.append(
                (name, lines, f"{base.cpu * 1e3:.0f}", f"{cost.cpu * 1e3:.0f}", f"{cost.cpu / base.cpu:.2f}", f"{cost.peak_mb:.0f}", imports)
            )  # fmt: skip
    head = ("script", "lines", "import click, ms", "preflight check, ms", "times", "peak MB", "heavy imports")
    print(table(head, rows))


if __name__ == "__main__":
    main()
