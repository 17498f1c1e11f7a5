from dataclasses import dataclass
from typing import Dict, List, Union
import torch
from datasets import Audio, load_dataset
from transformers import Trainer, TrainingArguments, Wav2Vec2CTCTokenizer, Wav2Vec2FeatureExtractor, Wav2Vec2ForCTC, Wav2Vec2Processor


@dataclass
class Collator:
    processor: Wav2Vec2Processor
    padding: Union[bool, str] = True

    def __call__(self, features: List[Dict]) -> Dict[str, torch.Tensor]:
        inputs = [{"input_values": f["input_values"]} for f in features]
        labels = [{"input_ids": f["labels"]} for f in features]
        batch = self.processor.pad(inputs, padding=self.padding, return_tensors="pt")
        padded = self.processor.pad(labels=labels, padding=self.padding, return_tensors="pt")
        batch["labels"] = padded["input_ids"].masked_fill(padded.attention_mask.ne(1), -100)
        return batch


tokenizer = Wav2Vec2CTCTokenizer("./vocab.json", unk_token="[UNK]", pad_token="[PAD]", word_delimiter_token="|")
extractor = Wav2Vec2FeatureExtractor(feature_size=1, sampling_rate=16000, padding_value=0.0, do_normalize=True, return_attention_mask=False)
processor = Wav2Vec2Processor(feature_extractor=extractor, tokenizer=tokenizer)
data = load_dataset("timit_asr", "clean").cast_column("audio", Audio(sampling_rate=16000))


def prepare(batch):
    audio = batch["audio"]
    batch["input_values"] = processor(audio["array"], sampling_rate=audio["sampling_rate"]).input_values[0]
    batch["labels"] = processor(text=batch["text"]).input_ids
    return batch


data = data.map(prepare, remove_columns=data.column_names["train"])
model = Wav2Vec2ForCTC.from_pretrained("facebook/wav2vec2-base", ctc_loss_reduction="mean", pad_token_id=processor.tokenizer.pad_token_id)
model.freeze_feature_encoder()
args = TrainingArguments(
    output_dir="wav2vec2-timit", group_by_length=True, per_device_train_batch_size=16, eval_strategy="steps", num_train_epochs=30,
    fp16=True, gradient_checkpointing=True, save_steps=500, eval_steps=500, logging_steps=100, learning_rate=1e-4, weight_decay=0.005, warmup_steps=1000,
)
trainer = Trainer(model=model, data_collator=Collator(processor), args=args, train_dataset=data["train"], eval_dataset=data["test"], processing_class=processor)
trainer.train()
