"""Wordle: find a hidden word of five letters in six guesses."""
