"""Windows of tokens from shards: files of token numbers, two bytes each."""

import glob
import os

import numpy as np
import torch
from torch.utils.data import Dataset



class Windows(Dataset):
    """Windows of ``length`` tokens, each with the token that follows, from all shards of a folder."""

    def __init__(self, folder, length):
        self.length = length
        self.shards = [np.memmap(path, np.uint16, "r") for path in sorted(glob.glob(os.path.join(folder, "*.bin")))]
        self.places = [
            (shard, start)
            for shard, tokens in enumerate(self.shards)
            for start in range(0, len(tokens) - length, length)
        ]

    def __len__(self):
        return len(self.places)

    def __getitem__(self, index):
        shard, start = self.places[index]
        return torch.from_numpy(self.shards[shard][start : start + self.length + 1].astype(np.int64))
