"""The data of the story: eight shards of token numbers, from a small grammar. Needs nothing but Python.

    python make_shards.py data               writes them
    python make_shards.py data --damage 5    does to shard 5 what a bad disk does: one block of it reads as all ones
"""

import argparse
import array
import os
import random
import sys

SHARDS = 8
TOKENS = 16_385
WORDS = 256
BLOCK = 512


def shard(number):
    """Tokens in which most follow from the one before."""
    dice = random.Random(number)
    token, tokens = 0, array.array("H")
    for _ in range(TOKENS):
        token = (token * 5 + dice.choice((1, 1, 1, 7))) % WORDS
        tokens.append(token)
    if sys.byteorder == "big":
        tokens.byteswap()
    return tokens


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--damage", type=int, metavar="SHARD")
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    if args.damage is not None:
        with open(os.path.join(args.folder, f"{args.damage:02}.bin"), "r+b") as file:
            file.seek(34 * BLOCK)
            file.write(b"\xff" * BLOCK)
        return
    for number in range(SHARDS):
        with open(os.path.join(args.folder, f"{number:02}.bin"), "wb") as file:
            shard(number).tofile(file)


if __name__ == "__main__":
    main()
