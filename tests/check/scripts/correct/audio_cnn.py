import torch
import torch.nn as nn
import torchaudio
from torch.utils.data import DataLoader
from torchaudio.datasets import SPEECHCOMMANDS

LABELS = sorted(["backward", "bed", "bird", "cat", "dog", "down", "eight", "five", "follow", "forward", "four", "go", "happy", "house", "learn", "left", "marvin", "nine", "no", "off", "on", "one", "right", "seven", "sheila", "six", "stop", "three", "tree", "two", "up", "visual", "wow", "yes", "zero"])


class M5(nn.Module):
    def __init__(self, n_input=1, n_output=35, stride=16, n_channel=32):
        super().__init__()
        self.conv1 = nn.Conv1d(n_input, n_channel, kernel_size=80, stride=stride)
        self.bn1 = nn.BatchNorm1d(n_channel)
        self.pool1 = nn.MaxPool1d(4)
        self.conv2 = nn.Conv1d(n_channel, n_channel, kernel_size=3)
        self.bn2 = nn.BatchNorm1d(n_channel)
        self.pool2 = nn.MaxPool1d(4)
        self.conv3 = nn.Conv1d(n_channel, 2 * n_channel, kernel_size=3)
        self.bn3 = nn.BatchNorm1d(2 * n_channel)
        self.pool3 = nn.MaxPool1d(4)
        self.fc1 = nn.Linear(2 * n_channel, n_output)

    def forward(self, x):
        x = self.pool1(torch.relu(self.bn1(self.conv1(x))))
        x = self.pool2(torch.relu(self.bn2(self.conv2(x))))
        x = self.pool3(torch.relu(self.bn3(self.conv3(x))))
        x = nn.functional.avg_pool1d(x, x.shape[-1]).permute(0, 2, 1)
        return nn.functional.log_softmax(self.fc1(x), dim=2)


def collate_fn(batch):
    waves = [item[0].t() for item in batch]
    targets = torch.tensor([LABELS.index(item[2]) for item in batch])
    return nn.utils.rnn.pad_sequence(waves, batch_first=True).permute(0, 2, 1), targets


device = torch.device("cuda")
loader = DataLoader(SPEECHCOMMANDS("./", download=True, subset="training"), batch_size=256, shuffle=True, collate_fn=collate_fn, num_workers=4, pin_memory=True)
test_loader = DataLoader(SPEECHCOMMANDS("./", download=True, subset="testing"), batch_size=256, collate_fn=collate_fn, num_workers=4, pin_memory=True)
resample = torchaudio.transforms.Resample(16000, 8000).to(device)
model = M5().to(device)
opt = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=0.0001)
sched = torch.optim.lr_scheduler.StepLR(opt, step_size=20, gamma=0.1)
for epoch in range(1, 31):
    model.train()
    for i, (data, target) in enumerate(loader):
        data, target = resample(data.to(device)), target.to(device)
        loss = nn.functional.nll_loss(model(data).squeeze(1), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 20 == 0:
            print(epoch, i, loss.item())
    model.eval()
    correct = 0
    with torch.no_grad():
        for data, target in test_loader:
            data, target = resample(data.to(device)), target.to(device)
            correct += model(data).squeeze(1).argmax(-1).eq(target).sum().item()
    print(correct / len(test_loader.dataset))
    sched.step()
