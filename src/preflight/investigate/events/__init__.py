"""What happens in the time before failures: an event logger for training code, and what goes together with failures."""
