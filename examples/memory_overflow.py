"""Fine-tune GPT-2 XL on texts of varying length, with a curriculum: short texts first, long ones later.

It runs for a thousand steps, and then out of memory.
"""

import glob

import h5py
import torch
from torch.utils.data import DataLoader, Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer

SHORT_LENGTH = 16
LONG_LENGTH = 1024
CURRICULUM_STEPS = 1000


class Articles(Dataset):
    """One article a file, as the crawl left it: the text, and what is known about it."""

    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with h5py.File(self.paths[index]) as article:
            text = article["text"].asstr()[()]
        return " ".join(text.split())


def main():
    device = torch.device("cuda")
    tokenizer = AutoTokenizer.from_pretrained("gpt2-xl")
    tokenizer.pad_token = tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained("gpt2-xl").to(device)
    model.train()

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    loader = DataLoader(Articles(sorted(glob.glob("articles/*.h5"))), batch_size=4, shuffle=True)

    for step, texts in enumerate(loader):
        max_length = SHORT_LENGTH if step <= CURRICULUM_STEPS else LONG_LENGTH
        batch = tokenizer(texts, padding=True, truncation=True, max_length=max_length, return_tensors="pt").to(device)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(**batch, labels=batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        torch.cuda.empty_cache()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}")
        if step % 500 == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, "checkpoint.pt")


if __name__ == "__main__":
    main()
