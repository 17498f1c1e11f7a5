"""The virtual GPU: runs a person's own training script on fake tensors, in a guarded process."""
