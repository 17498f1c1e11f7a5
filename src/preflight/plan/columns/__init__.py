"""Work on columns of layouts, which imports NumPy: only a search comes here."""
