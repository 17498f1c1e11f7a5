"""What relations read out of the windows of a run: steps of optimizers, batches of loaders, copies of weights and the like."""
