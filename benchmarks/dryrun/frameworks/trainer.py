"""The ``Trainer`` of transformers: a small GPT-2 from a configuration, bf16, recomputation, clipping, evaluation."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        tokens = torch.randint(0, 1000, (64,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": tokens, "labels": tokens}


model = GPT2LMHeadModel(GPT2Config(vocab_size=1000, n_layer=3, n_embd=128, n_head=4, n_positions=64, use_cache=False))
arguments = TrainingArguments(
    output_dir="out",
    per_device_train_batch_size=4,
    per_device_eval_batch_size=8,
    max_steps=3,
    bf16=True,
    gradient_checkpointing=True,
    gradient_checkpointing_kwargs={"use_reentrant": False},
    optim="adamw_torch",
    save_strategy="no",
    report_to=[],
    disable_tqdm=True,
)
trainer = Trainer(model=model, args=arguments, train_dataset=Tokens(), eval_dataset=Tokens())
trainer.train()
trainer.evaluate()
