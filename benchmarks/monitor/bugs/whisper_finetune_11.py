"""Stripes are cut out of the spectrograms for training, and of those that the model is evaluated with, too."""
# source: https://github.com/shuaijiang/Whisper-Finetune/pull/11
# first effect: step 2
# names: evaluation
# family: data
# detectable: yes the same samples have other values each time they are evaluated

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Speech(Dataset):
    def __init__(self, features, words, spec_aug):
        self.features, self.words, self.spec_aug = features, words, spec_aug

    def __len__(self):
        return len(self.words)

    def __getitem__(self, index):
        mel = self.features[index].clone()
        if self.spec_aug:
            band = torch.randint(0, mel.shape[0] - 3, (1,)).item()
            frame = torch.randint(0, mel.shape[1] - 4, (1,)).item()
            mel[band : band + 3] = 0
            mel[:, frame : frame + 4] = 0
        return mel, self.words[index]


class Listener(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(12, 24, 3, padding=1), nn.Conv1d(24, 24, 3, 2, 1)
        self.norm, self.proj = nn.LayerNorm(24), nn.Linear(24, 6)

    def forward(self, mel):
        hidden = torch.relu(self.conv2(torch.relu(self.conv1(mel))))
        return self.proj(self.norm(hidden.mean(2)))


class Trainer:
    def __init__(self, model, train, evaluation):
        self.model, self.evaluation = model, DataLoader(evaluation, 16)
        self.train_loader = DataLoader(train, 16, shuffle=True)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        self.criterion = nn.CrossEntropyLoss()

    def evaluate(self):
        self.model.eval()
        with torch.no_grad():
            wrong = sum((self.model(mel).argmax(1) != word).sum().item() for mel, word in self.evaluation)
        return wrong / len(self.evaluation.dataset)

    def train(self, steps, eval_steps):
        step = 0
        while step < steps:
            for mel, word in self.train_loader:
                self.model.train()
                loss = self.criterion(self.model(mel), word)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                step += 1
                if step % eval_steps == 0:
                    print(f"step {step}: loss {loss.item():.4f}, wer {self.evaluate():.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    words = torch.arange(128) % 6
    features = torch.randn(128, 12, 20) * 0.7 + torch.randn(6, 12, 20)[words]
    train = Speech(features[:96], words[:96], spec_aug=True)
    evaluation = Speech(features[96:], words[96:], spec_aug=not args.fixed)
    Trainer(Listener(), train, evaluation).train(args.steps, eval_steps=2)


if __name__ == "__main__":
    main()
