import torch
from datasets import load_dataset
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig, DataCollatorForLanguageModeling, Trainer, TrainingArguments

MODEL = "mistralai/Mistral-7B-v0.1"
bnb = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16, bnb_4bit_use_double_quant=True)
tokenizer = AutoTokenizer.from_pretrained(MODEL)
tokenizer.pad_token = tokenizer.unk_token
model = AutoModelForCausalLM.from_pretrained(MODEL, quantization_config=bnb, device_map={"": 0})
model.config.use_cache = False
model = prepare_model_for_kbit_training(model)
model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"], lora_dropout=0.05, bias="none", task_type="CAUSAL_LM"))
model.print_trainable_parameters()
data = load_dataset("tatsu-lab/alpaca", split="train")


def tokenize(row):
    return tokenizer(row["text"], truncation=True, max_length=1024)


data = data.map(tokenize, remove_columns=data.column_names).train_test_split(0.01, seed=0)
args = TrainingArguments(
    output_dir="out", per_device_train_batch_size=4, gradient_accumulation_steps=4, learning_rate=2e-4, num_train_epochs=1, bf16=True,
    lr_scheduler_type="cosine", warmup_ratio=0.03, logging_steps=10, save_strategy="epoch", eval_strategy="epoch", optim="paged_adamw_8bit", max_grad_norm=0.3,
)
Trainer(model=model, args=args, train_dataset=data["train"], eval_dataset=data["test"], data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False)).train()
model.save_pretrained("adapter")
