"""A small language of arithmetic."""

from calc.evaluate import evaluate
from calc.errors import CalcError

__all__ = ["CalcError", "evaluate"]
