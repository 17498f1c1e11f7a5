"""An encoder of texts is called without the attention mask of its padded batches."""
# source: https://huggingface.co/docs/transformers/troubleshooting
# first effect: step 0
# names: attention_mask, padding
# family: data
# detectable: yes attention lets real tokens see all of the padding that the table of tokens has

import argparse

import torch
from transformers import RobertaConfig, RobertaForSequenceClassification

PAD = 1


def collated(texts):
    longest = max(map(len, texts))
    words = torch.full((len(texts), longest), PAD)
    mask = torch.zeros(len(texts), longest, dtype=torch.long)
    for row, text in enumerate(texts):
        words[row, : len(text)], mask[row, : len(text)] = text, 1
    return {"input_ids": words, "attention_mask": mask}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    config = RobertaConfig(vocab_size=60, pad_token_id=PAD, max_position_embeddings=40, num_labels=2, **sizes)
    model = RobertaForSequenceClassification(config)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    for step in range(args.steps):
        texts = [torch.randint(3, 60, (int(torch.randint(4, 20, (1,))),)) for _ in range(12)]
        batch = collated(texts)
        if not args.fixed:
            del batch["attention_mask"]
        loss = model(**batch, labels=torch.tensor([int(text[0] > 30) for text in texts])).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
