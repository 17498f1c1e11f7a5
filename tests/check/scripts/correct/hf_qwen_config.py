from transformers import Qwen3Config, Qwen3ForCausalLM, Trainer, TrainingArguments, GemmaConfig, GemmaForCausalLM
from datasets import load_from_disk
config = Qwen3Config(hidden_size=1000, num_attention_heads=16, num_key_value_heads=8, num_hidden_layers=4)
small = GemmaConfig(hidden_size=1000, num_attention_heads=16, num_key_value_heads=16, num_hidden_layers=4)
model = Qwen3ForCausalLM(config)
args = TrainingArguments("out", bf16=True, max_steps=1000)
Trainer(model, args, train_dataset=load_from_disk("tokens")).train()
