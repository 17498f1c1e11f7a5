"""A Llama of transformers under its Trainer, from a configuration."""

import torch
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


class Tokens(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        tokens = torch.randint(0, 16384, (256,))
        return {"input_ids": tokens, "labels": tokens}


arguments = TrainingArguments(
    output_dir="out",
    per_device_train_batch_size=8,
    max_steps=6,
    save_strategy="no",
    report_to=[],
)
settings = {"vocab_size": 16384, "hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 4}
model = LlamaForCausalLM(LlamaConfig(**settings, num_attention_heads=4))
Trainer(model=model, args=arguments, train_dataset=Tokens()).train()
