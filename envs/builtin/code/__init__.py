"""Environments in which the agent writes code, to be judged by tests or as a tool to think with."""
