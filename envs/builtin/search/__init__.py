"""Search: multi-hop questions over a library of documents about a world that does not exist."""
