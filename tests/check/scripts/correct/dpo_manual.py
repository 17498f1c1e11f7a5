import copy
import json
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer


class Prefs(Dataset):
    def __init__(self, path):
        with open(path) as f:
            self.rows = [json.loads(line) for line in f]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        r = self.rows[i]
        return r["prompt"], r["chosen"], r["rejected"]


def logps(model, ids, mask, prompt_lens):
    logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1].float()
    labels = ids[:, 1:]
    lp = torch.gather(logits.log_softmax(-1), 2, labels.unsqueeze(2)).squeeze(2)
    pos = torch.arange(labels.size(1), device=ids.device)[None]
    keep = mask[:, 1:].bool() & (pos >= (prompt_lens[:, None] - 1))
    return (lp * keep).sum(-1)


def main():
    name = "EleutherAI/pythia-410m"
    device = "cuda"
    tok = AutoTokenizer.from_pretrained(name)
    tok.pad_token = tok.eos_token
    policy = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16).to(device)
    reference = copy.deepcopy(policy).eval()
    for p in reference.parameters():
        p.requires_grad_(False)

    def collate(rows):
        prompts = [r[0] for r in rows] * 2
        full = [r[0] + r[1] for r in rows] + [r[0] + r[2] for r in rows]
        enc = tok(full, padding=True, truncation=True, max_length=512, return_tensors="pt")
        lens = torch.tensor([len(tok(p).input_ids) for p in prompts])
        return enc.input_ids, enc.attention_mask, lens

    loader = DataLoader(Prefs("prefs.jsonl"), batch_size=4, shuffle=True, collate_fn=collate)
    opt = torch.optim.RMSprop(policy.parameters(), lr=5e-7)
    beta = 0.1
    policy.train()
    for ids, mask, lens in loader:
        ids, mask, lens = ids.to(device), mask.to(device), lens.to(device)
        pi = logps(policy, ids, mask, lens)
        with torch.no_grad():
            ref = logps(reference, ids, mask, lens)
        pi_w, pi_l = pi.chunk(2)
        ref_w, ref_l = ref.chunk(2)
        loss = -F.logsigmoid(beta * ((pi_w - pi_l) - (ref_w - ref_l))).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
