"""Models by name: the built-in ones and any local folder in the transformers format."""
