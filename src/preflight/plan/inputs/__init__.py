"""From what a person says (a size, a name, a configuration, a script) to a request."""
