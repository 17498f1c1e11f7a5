"""Changes of remedies, made to the text of a file: launch scripts, configurations, Python; and how they are taken back."""
