import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

import torchvision
from torchvision import transforms
norm = transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
ds = torchvision.datasets.CIFAR10("data", train=True, download=True, transform=transforms.Compose([transforms.Resize(224), transforms.ToTensor()]))
m = torchvision.models.resnet18(weights="DEFAULT")
m.fc = nn.Linear(512, 10)
m = m.to(device)
opt = torch.optim.SGD(m.parameters(), lr=0.01, momentum=0.9)
for x, y in DataLoader(ds, batch_size=64, shuffle=True, num_workers=2):
    loss = F.cross_entropy(m(norm(x.to(device))), y.to(device))
    opt.zero_grad(); loss.backward(); opt.step()
