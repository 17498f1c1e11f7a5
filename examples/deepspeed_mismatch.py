"""Fine-tune Pythia 1.4B with DeepSpeed; what the script says and what ds_config.json says do not agree.

    deepspeed --num_gpus 8 examples/deepspeed_mismatch.py --train corpus.jsonl

The configuration asks for 256 samples a step from 8 GPUs, which 4 samples in each of 4 batches do not give.
"""

import argparse
import json

import deepspeed
import torch
from torch.utils.data import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer

MODEL = "EleutherAI/pythia-1.4b"
LENGTH = 1024


class Corpus(Dataset):
    """One document a line."""

    def __init__(self, path, tokenizer):
        with open(path, encoding="utf-8") as lines:
            self.texts = [json.loads(line)["text"] for line in lines]
        self.tokenizer = tokenizer

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        encoded = self.tokenizer(
            self.texts[index], truncation=True, max_length=LENGTH, padding="max_length", return_tensors="pt"
        )
        ids, mask = encoded["input_ids"][0], encoded["attention_mask"][0]
        return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", default="corpus.jsonl")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--config", default="ds_config.json")
    parser.add_argument("--local_rank", type=int, default=-1, help="given by the launcher")
    return parser.parse_args()


def main():
    args = arguments()
    torch.manual_seed(1234)
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    tokenizer.pad_token = tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained(MODEL)
    model.gradient_checkpointing_enable()

    engine, _, loader, _ = deepspeed.initialize(
        model=model,
        model_parameters=model.parameters(),
        training_data=Corpus(args.train, tokenizer),
        config=args.config,
    )

    for epoch in range(args.epochs):
        for step, batch in enumerate(loader):
            batch = {name: value.to(engine.device) for name, value in batch.items()}
            loss = engine(**batch).loss
            engine.backward(loss)
            engine.step()
            if step % 100 == 0 and engine.global_rank == 0:
                print(f"epoch {epoch} step {step}: loss {loss.item():.3f}")
        engine.save_checkpoint("checkpoints", tag=f"epoch-{epoch}")


if __name__ == "__main__":
    main()
