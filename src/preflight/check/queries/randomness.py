"""Randomness: which calls set seeds, and which draw."""

from __future__ import annotations

# Calls that seed the generator that PyTorch initialises weights with; torch.seed() draws the seed itself by chance.
SEEDS = (
    "torch.manual_seed",
    "torch.random.manual_seed",
    "transformers.set_seed",
    "transformers.trainer_utils.set_seed",
    "accelerate.utils.set_seed",
    "lightning.pytorch.seed_everything",
    "lightning.pytorch.utilities.seed.seed_everything",
    "lightning.fabric.seed_everything",
    "lightning.fabric.utilities.seed.seed_everything",
    "lightning.fabric.Fabric.seed_everything",
    "monai.utils.set_determinism",
    "timm.utils.random_seed",
    "ignite.utils.manual_seed",
    "torch_geometric.seed_everything",
    "torch_geometric.seed.seed_everything",
    ".seed_everything",
)
# Calls that make a generator of their own.
GENERATORS = (
    "numpy.random.default_rng",
    "numpy.random.RandomState",
    "numpy.random.Generator",
    "random.Random",
    "torch.Generator",
)
# Calls that split or order data by chance; with the argument that gives them a generator or seed of their own.
SPLITS: dict[str, tuple[int, str]] = {
    "torch.utils.data.random_split": (2, "generator"),
    "torch.randperm": (-1, "generator"),
    "sklearn.model_selection.train_test_split": (-1, "random_state"),
}
