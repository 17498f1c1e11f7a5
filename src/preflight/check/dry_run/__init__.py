"""What a dry run on the virtual GPU adds to a check: memory, growth, time, what would fit."""
