"""A network's forward pass as the script writes it: the shape of every tensor, and what autograd keeps of it."""
