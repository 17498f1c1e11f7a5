"""The virtual GPU itself: operators on fake tensors, and what PyTorch says of the device."""
