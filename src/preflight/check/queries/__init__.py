"""What rules ask of a script that was read: its loops, losses, loaders, optimizers, tensors."""
