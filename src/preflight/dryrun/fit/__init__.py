"""What would make a script fit on a GPU: measured, by running it again on the virtual GPU with something changed."""
