"""The multi-turn function-calling benchmark of Berkeley (BFCL v4), read from the installed package `bfcl-eval`."""
