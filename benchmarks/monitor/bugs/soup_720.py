"""A trainer for distillation that takes the number of items and ignores it: gradients grow with the micro-batches."""
# source: https://github.com/MakazhanAlpamys/Soup/issues/720
# first effect: step 0
# names: compute_loss
# family: loss
# detectable: no sums and means over micro-batches are both in use

import argparse
import tempfile

import torch
import torch.nn.functional as F
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
from transformers.utils import logging

logging.set_verbosity_error()


class Counting(Dataset):
    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        starts = torch.randint(24, (count, 1), generator=generator)
        self.tokens = (starts + 5 * torch.arange(12)) % 24

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}


class DistillTrainer(Trainer):
    def __init__(self, *args, teacher, divides, **more):
        super().__init__(*args, **more)
        self.teacher = teacher.eval().requires_grad_(False)
        if divides:
            self.model_accepts_loss_kwargs = False

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(**inputs)
        with torch.no_grad():
            wanted = self.teacher(input_ids=inputs["input_ids"]).logits
        kd = F.kl_div(
            F.log_softmax(outputs.logits / 2, dim=-1).flatten(0, 1),
            F.log_softmax(wanted / 2, dim=-1).flatten(0, 1),
            reduction="batchmean",
            log_target=True,
        )
        loss = 0.5 * outputs.loss + 0.5 * 4 * kd
        return (loss, outputs) if return_outputs else loss


def small(layers):
    return GPT2LMHeadModel(GPT2Config(vocab_size=24, n_positions=16, n_embd=32, n_layer=layers, n_head=2))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    teacher, student = small(2), small(1)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            max_steps=args.steps,
            per_device_train_batch_size=8,
            gradient_accumulation_steps=4,
            learning_rate=3e-3,
            optim="sgd",
            max_grad_norm=0.0,
            seed=args.seed,
            use_cpu=True,
            disable_tqdm=True,
            save_strategy="no",
            report_to=[],
        )
        trainer = DistillTrainer(
            student, arguments, train_dataset=Counting(512, args.seed), teacher=teacher, divides=args.fixed
        )
        print(trainer.train().metrics["train_loss"])


if __name__ == "__main__":
    main()
