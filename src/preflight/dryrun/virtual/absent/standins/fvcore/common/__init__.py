"""In the place of fvcore: settings and registries."""
