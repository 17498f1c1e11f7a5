"""What rules of layer V ask of a dry run: what was seen in it, in the words of rules."""
