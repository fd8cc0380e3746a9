"""The laws that `check` tries, grouped by what they are about."""
