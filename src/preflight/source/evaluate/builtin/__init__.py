"""Built-in functions, by what they are about; ``library/builtins.py`` has all of them."""
