"""The rules, by family. A file is a rule: its declaration, its page, its examples, its check."""
