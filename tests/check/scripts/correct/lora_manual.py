"""LoRA written by hand on a GPT-2 of transformers."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import Dataset, DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer


class LoRA(nn.Module):
    def __init__(self, base, r=8, alpha=16, dropout=0.05):
        super().__init__()
        self.base = base
        out = base.weight.shape[1]
        inn = base.weight.shape[0]
        self.A = nn.Parameter(torch.empty(inn, r))
        self.B = nn.Parameter(torch.zeros(r, out))
        nn.init.kaiming_uniform_(self.A, a=math.sqrt(5))
        self.scale = alpha / r
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        return self.base(x) + self.drop(x) @ self.A @ self.B * self.scale


class Texts(Dataset):
    def __init__(self, path, tok, length=512):
        text = open(path, encoding="utf-8").read()
        ids = tok(text, return_tensors="pt").input_ids[0]
        n = len(ids) // length
        self.rows = ids[: n * length].view(n, length)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def inject(model, r):
    for p in model.parameters():
        p.requires_grad = False
    for block in model.transformer.h:
        block.attn.c_attn = LoRA(block.attn.c_attn, r)
    return model


def main():
    torch.manual_seed(0)
    device = torch.device("cuda")
    tok = AutoTokenizer.from_pretrained("gpt2")
    model = AutoModelForCausalLM.from_pretrained("gpt2")
    model = inject(model, 8).to(device)
    params = [p for p in model.parameters() if p.requires_grad]
    print(sum(p.numel() for p in params))
    opt = torch.optim.AdamW(params, lr=2e-4)
    dl = DataLoader(Texts("corpus.txt", tok), batch_size=8, shuffle=True, drop_last=True)
    model.train()
    for epoch in range(3):
        for step, ids in enumerate(dl):
            ids = ids.to(device)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                logits = model(ids).logits
                loss = F.cross_entropy(logits[:, :-1].reshape(-1, logits.size(-1)), ids[:, 1:].reshape(-1))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(params, 1.0)
            opt.step()
            opt.zero_grad(set_to_none=True)
            if step % 50 == 0:
                print(epoch, step, loss.item())
    torch.save({k: v for k, v in model.state_dict().items() if k.endswith((".A", ".B"))}, "lora.pt")


if __name__ == "__main__":
    main()
