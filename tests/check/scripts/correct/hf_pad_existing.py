from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments, DataCollatorForLanguageModeling
from datasets import load_dataset
tok = AutoTokenizer.from_pretrained("gpt2")
tok.add_special_tokens({"pad_token": "<|endoftext|>"})
model = AutoModelForCausalLM.from_pretrained("gpt2")
ds = load_dataset("wikitext", "wikitext-2-raw-v1")["train"].map(lambda b: tok(b["text"], truncation=True, max_length=512), batched=True, remove_columns=["text"])
args = TrainingArguments("out", num_train_epochs=1, per_device_train_batch_size=8, learning_rate=5e-5, fp16=True)
Trainer(model=model, args=args, train_dataset=ds, data_collator=DataCollatorForLanguageModeling(tok, mlm=False)).train()
