"""Check: judge a training script before it runs."""
