"""Which link, or which node, is slow: every rank with every other, two by two, and nobody waits for the dead."""
