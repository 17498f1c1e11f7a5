"""A second opinion of a language model, only where a person asks for it; the verdict never depends on it.

What is sent is the redacted evidence and nothing else; what comes back is shown as a hypothesis, and every line that it
cites is looked for in what was sent.
"""
