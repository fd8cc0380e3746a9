"""Tic-tac-toe from any position that is not lost, against a perfect or a random opponent."""
