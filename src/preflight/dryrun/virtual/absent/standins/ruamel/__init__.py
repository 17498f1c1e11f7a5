"""In the place of the namespace of ruamel.yaml."""
