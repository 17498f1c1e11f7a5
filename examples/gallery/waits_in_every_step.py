import time

import torch
import torchvision
from torch import nn
from torch.utils.data import DataLoader
from torchvision import transforms

prepare = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])
pictures = torchvision.datasets.ImageFolder("pictures", prepare)
loader = DataLoader(pictures, batch_size=128, shuffle=True, num_workers=8, pin_memory=True)
model = torchvision.models.resnet50(weights=None).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

for images, labels in loader:
    images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
    began = time.perf_counter()
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    torch.cuda.empty_cache()
    print(f"step in {time.perf_counter() - began:.3f} s")
