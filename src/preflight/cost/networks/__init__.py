"""Networks that are no stack of equal blocks, written down operation by operation on a tape."""
