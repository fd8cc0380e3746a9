"""The client's half of a borrowed sandbox: connections to a server, and leases that are kept alive."""
