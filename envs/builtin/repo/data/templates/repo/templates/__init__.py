"""A small template language."""

from templates.render import render

__all__ = ["render"]
