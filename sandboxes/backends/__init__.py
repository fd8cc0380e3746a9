"""Ways to make a sandbox: a plain process, namespaces, a container, another machine."""
