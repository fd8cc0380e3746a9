"""The host's half of a sandbox on this machine: how a supervisor is started, spoken to, and ended."""
