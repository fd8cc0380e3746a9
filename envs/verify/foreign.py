"""What the reader here does not know (sums, integrals, products of matrices, …), read and compared by math-verify.

Runs in a worker process: neither its reading nor its comparing has a limit of its own.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from latex2sympy2_extended import NormalizationConfig
from math_verify import LatexExtractionConfig, parse, verify
from sympy import Basic, MatrixBase

# Units stay: "5t" would lose its t. Boxes were opened before.
_LATEX: Final = LatexExtractionConfig(
    boxed_match_priority=-1,
    normalization_config=NormalizationConfig(
        basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="none", equations=False
    ),
)
_ROUNDING: Final = 12
"""Decimals to which floating-point numbers must agree."""
_PRECISION: Final = 30
"""Digits to which formulas must."""

logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns that it has no time limit: the worker has


def read_foreign(text: str) -> Basic | MatrixBase | None:
    """A formula as math-verify reads it; None if it cannot."""
    text = text.replace("$", " ").replace("\n", " ").strip()
    if not text or text.count("{") != text.count("}"):
        return None
    try:
        found: list[Any] = parse(
            f"${text}$",
            [_LATEX],
            fallback_mode="no_fallback",
            extraction_mode="first_match",
            parsing_timeout=None,
        )
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 (its parser raises whatever comes)
        return None
    return found[0] if found and isinstance(found[0], Basic | MatrixBase) else None


def same_foreign(a: Basic | MatrixBase, b: Basic | MatrixBase) -> bool:
    """Whether math-verify takes an answer for a reference."""
    return bool(
        verify(
            a, b, float_rounding=_ROUNDING, numeric_precision=_PRECISION, strict=True, timeout_seconds=None
        )
    )
