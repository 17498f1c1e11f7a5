"""A U-Net for segmentation with SGD in fp32, TF32 allowed, channels last: batches of 16 pictures of 256 x 256."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True


def twice(inside, outside):
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1, bias=False),
        nn.BatchNorm2d(outside),
        nn.ReLU(inplace=True),
        nn.Conv2d(outside, outside, 3, padding=1, bias=False),
        nn.BatchNorm2d(outside),
        nn.ReLU(inplace=True),
    )


class Segmenter(nn.Module):
    def __init__(self, classes=21, base=64):
        super().__init__()
        self.down1, self.down2 = twice(3, base), twice(base, 2 * base)
        self.down3, self.down4 = twice(2 * base, 4 * base), twice(4 * base, 8 * base)
        self.bottom = twice(8 * base, 16 * base)
        self.up4 = nn.ConvTranspose2d(16 * base, 8 * base, 2, 2)
        self.conv4 = twice(16 * base, 8 * base)
        self.up3 = nn.ConvTranspose2d(8 * base, 4 * base, 2, 2)
        self.conv3 = twice(8 * base, 4 * base)
        self.up2 = nn.ConvTranspose2d(4 * base, 2 * base, 2, 2)
        self.conv2 = twice(4 * base, 2 * base)
        self.up1 = nn.ConvTranspose2d(2 * base, base, 2, 2)
        self.conv1 = twice(2 * base, base)
        self.out = nn.Conv2d(base, classes, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.down3(F.max_pool2d(b, 2))
        d = self.down4(F.max_pool2d(c, 2))
        x = self.bottom(F.max_pool2d(d, 2))
        x = self.conv4(torch.cat([d, self.up4(x)], dim=1))
        x = self.conv3(torch.cat([c, self.up3(x)], dim=1))
        x = self.conv2(torch.cat([b, self.up2(x)], dim=1))
        x = self.conv1(torch.cat([a, self.up1(x)], dim=1))
        return self.out(x)


torch.manual_seed(0)
model = Segmenter().to("cuda", memory_format=torch.channels_last)
criterion = nn.CrossEntropyLoss(ignore_index=255)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, nesterov=True)
for step in range(12):
    pictures = torch.randn(16, 3, 256, 256, device="cuda").to(memory_format=torch.channels_last)
    masks = torch.randint(0, 21, (16, 256, 256), device="cuda")
    optimizer.zero_grad()
    loss = criterion(model(pictures), masks)
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
