"""A transform of albumentations is given a picture by position.

## What it does
Looks for `transform(picture)` where the transform is made with albumentations.

## Why
Albumentations takes pictures, masks and boxes by name and returns a dictionary.
A picture by position raises a KeyError, "You have to pass data to augmentations as named arguments", when the first sample is read; torchvision's transforms take it so, and a line that is left from them fails.

## Fix
Write `transform(image=picture)["image"]`.

## When to ignore
Never: the call cannot succeed.

## References
- Albumentations documentation, `albumentations.Compose`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Obj, options_of
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="picture-given-by-position",
    code="DAT026",
    severity="error",
    confidence="certain",
    layer="D",
    tags=("data",),
)

BAD = (
    """
import albumentations as A, cv2
from albumentations.pytorch import ToTensorV2
transform = A.Compose([A.Resize(224, 224), A.Normalize(), ToTensorV2()])
picture = transform(cv2.imread("a.png"))["image"]
""",
    """
import albumentations, cv2
from torch.utils.data import DataLoader, Dataset
class Pictures(Dataset):
    def __init__(self, files, transform):
        self.files, self.transform = files, transform
    def __len__(self):
        return len(self.files)
    def __getitem__(self, i):
        picture = cv2.imread(self.files[i])
        if self.transform is not None:
            picture = self.transform(picture)
        return picture
for batch in DataLoader(Pictures(["a"], albumentations.HorizontalFlip(p=0.5)), batch_size=8):
    print(batch)
""",
    """
import argparse
from albumentations import Compose, RandomCrop
parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int, default=224)
args = parser.parse_args()
def build(size):
    return Compose([RandomCrop(size, size)])
crop = build(args.size)
pictures = [crop(picture) for picture in read()]
""",
)
GOOD = (
    """
import albumentations as A, cv2
transform = A.Compose([A.Resize(224, 224), A.Normalize()])
picture = transform(image=cv2.imread("a.png"))["image"]
""",
    """
import albumentations as A
from torchvision import transforms as T
def apply(transform, picture):
    if isinstance(transform, A.Compose):
        return transform(image=picture)["image"]
    return transform(picture)
apply(T.Compose([T.ToTensor()]), picture)
apply(A.Compose([A.Normalize()]), picture)
try:
    out = A.Compose([A.Normalize()])(picture)
except KeyError:
    out = None
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find calls of albumentations' transforms with something by position."""
    seen: set[int] = set()
    for event in context.trace.calls("()"):
        made = _transform(event)
        if made is None or not event.args or id(event.node) in seen or _guarded(event):
            continue
        seen.add(id(event.node))
        name = made.name.rpartition(".")[2]
        yield context.finding(
            RULE,
            event,
            f"the {name} of albumentations is given a picture by position and takes it by name alone: it raises a KeyError",
            evidence=[Evidence("arguments by position", len(event.args))],
            related=[(made, "the transform")],
            fix=Fix(
                title="give the picture by name",
                instruction='call transform(image=picture), and take ["image"] of what it returns',
                expected="the first sample can be read",
            ),
        )


def _transform(event: Event) -> Obj | None:
    """The transform of albumentations that is called, where it can be nothing else."""
    options = list(options_of(event.receiver))
    made = [o for o in options if isinstance(o, Obj) and o.cls is None and o.name.startswith("albumentations.")]
    return made[0] if made and len(made) == len(options) and made[0].kind == "call" else None


def _guarded(event: Event) -> bool:
    """Whether a branch or a ``try`` may keep the call from being made, or from ending the run."""
    frames = list(event.context.frames())
    return event.context.shadow or any(f.kind == "try" or (f.kind == "if" and f.taken is None) for f in frames)
