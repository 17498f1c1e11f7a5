import os
import torch
import torchvision
from PIL import Image
from torchvision.io import read_image
from torchvision.models.detection import FasterRCNN_ResNet50_FPN_Weights, fasterrcnn_resnet50_fpn
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor
from torchvision.ops.boxes import masks_to_boxes
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as F
from torchvision.transforms import v2 as T


class PennFudan(torch.utils.data.Dataset):
    def __init__(self, root, transforms):
        self.root, self.transforms = root, transforms
        self.imgs = sorted(os.listdir(os.path.join(root, "PNGImages")))
        self.masks = sorted(os.listdir(os.path.join(root, "PedMasks")))

    def __getitem__(self, idx):
        img = read_image(os.path.join(self.root, "PNGImages", self.imgs[idx]))
        mask = read_image(os.path.join(self.root, "PedMasks", self.masks[idx]))
        ids = torch.unique(mask)[1:]
        masks = (mask == ids[:, None, None]).to(dtype=torch.uint8)
        boxes = masks_to_boxes(masks)
        labels = torch.ones((len(ids),), dtype=torch.int64)
        img = tv_tensors.Image(img)
        target = {"boxes": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=F.get_size(img)), "masks": tv_tensors.Mask(masks), "labels": labels, "image_id": idx}
        if self.transforms is not None:
            img, target = self.transforms(img, target)
        return img, target

    def __len__(self):
        return len(self.imgs)


def get_transform(train):
    tf = []
    if train:
        tf.append(T.RandomHorizontalFlip(0.5))
    tf.append(T.ToDtype(torch.float, scale=True))
    tf.append(T.ToPureTensor())
    return T.Compose(tf)


def collate_fn(batch):
    return tuple(zip(*batch))


def train_one_epoch(model, optimizer, loader, device, epoch):
    model.train()
    warm = None
    if epoch == 0:
        warm = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1e-3, total_iters=min(1000, len(loader) - 1))
    for images, targets in loader:
        images = list(image.to(device) for image in images)
        targets = [{k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in t.items()} for t in targets]
        losses = model(images, targets)
        loss = sum(l for l in losses.values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if warm is not None:
            warm.step()
    print(epoch, loss.item())


@torch.inference_mode()
def evaluate(model, loader, device):
    model.eval()
    outputs = []
    for images, targets in loader:
        out = model([img.to(device) for img in images])
        outputs += [{k: v.cpu() for k, v in t.items()} for t in out]
    return outputs


device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
model = fasterrcnn_resnet50_fpn(weights=FasterRCNN_ResNet50_FPN_Weights.DEFAULT)
model.roi_heads.box_predictor = FastRCNNPredictor(model.roi_heads.box_predictor.cls_score.in_features, 2)
model.to(device)
dataset = PennFudan("data/PennFudanPed", get_transform(True))
dataset_test = PennFudan("data/PennFudanPed", get_transform(False))
indices = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(0)).tolist()
dataset = torch.utils.data.Subset(dataset, indices[:-50])
dataset_test = torch.utils.data.Subset(dataset_test, indices[-50:])
data_loader = torch.utils.data.DataLoader(dataset, batch_size=2, shuffle=True, collate_fn=collate_fn, num_workers=4)
test_loader = torch.utils.data.DataLoader(dataset_test, batch_size=1, shuffle=False, collate_fn=collate_fn)
params = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.SGD(params, lr=0.005, momentum=0.9, weight_decay=0.0005)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.1)
for epoch in range(10):
    train_one_epoch(model, optimizer, data_loader, device, epoch)
    scheduler.step()
    evaluate(model, test_loader, device)
