"""What the `docker` backend is made of: the engine's connection, a container's options, the channel, the reaper."""
