"""What several formats share: options, safe text, sentences, source snippets, paint and charts."""
