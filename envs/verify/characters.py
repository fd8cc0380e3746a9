"""Characters of many scripts, and LaTeX's ways of spacing them, as those that a formula is read from."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from turngym.envs.verify.errors import Unreadable

# Characters that stand for a command or for another character. Two private ones stand for what may part thousands:
# U+E000 for {,} and U+E001 for thin and unbreakable spaces.
_CHARACTERS: Final = {
    **dict.fromkeys("−–—‐‑‒﹣", "-"), **dict.fromkeys("×·⋅∙∗", "*"), "÷": "/", "∕": "/", "⁄": "/",
    "π": r"\pi ", "√": r"\sqrt ", "∞": r"\infty ", "≤": "≤", "⩽": "≤", "≥": "≥", "⩾": "≥", "∅": r"\emptyset ",
    "ℝ": r"\mathbb{R}", "ℤ": r"\mathbb{Z}", "º": "°", "∣": "|", "“": "", "”": "", "‘": "'", "’": "'", "\u200b": "",
    "′": "'", "⟨": "(", "⟩": ")", "\u00a0": "\ue001", "\u202f": "\ue001", "\u2009": "\ue001", "\u2008": "\ue001",
    "⌊": r"\lfloor ", "⌋": r"\rfloor ", "⌈": r"\lceil ", "⌉": r"\rceil ", "∖": r"\setminus ",
    "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ", "θ": r"\theta ", "λ": r"\lambda ", "μ": r"\mu ",
    "φ": r"\phi ", "ω": r"\omega ",
}  # fmt: skip
_SUPERSCRIPTS: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_SUPERSCRIPT: Final = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺]+")
_SUBSCRIPTS: Final = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_SUBSCRIPT: Final = re.compile("[₀₁₂₃₄₅₆₇₈₉]+")
_TRANSLATION: Final = str.maketrans(_CHARACTERS)


def plain(text: str) -> str:
    """Characters of many scripts as those of LaTeX's input."""
    if not text.isascii():
        text = _SUPERSCRIPT.sub(lambda m: "^{" + m[0].translate(_SUPERSCRIPTS) + "}", text)
        text = _SUBSCRIPT.sub(lambda m: "_{" + m[0].translate(_SUBSCRIPTS) + "}", text)
        text = re.sub("[¼-¾⅐-⅞]", lambda m: _vulgar(m[0]), text).translate(_TRANSLATION)
        text = "".join(c if c in "≤≥≠∪∈±°€£→\ue000\ue001" else unicodedata.normalize("NFKC", c) for c in text)
    text = re.sub(r",\\!\s*|\{,\}", "\ue000", text).replace(r"\!", "").replace(r"\,", "\ue001")
    return _without_dollars(text)


def _vulgar(character: str) -> str:
    above, _, below = unicodedata.normalize("NFKC", character).partition("⁄")
    return rf"\frac{{{above}}}{{{below or '1'}}}"


def _without_dollars(text: str) -> str:
    """Dollar signs around formulas are left out; a single one before a number is money and stays."""
    bare = re.findall(r"(?<!\\)\$", text)
    if len(bare) % 2 == 1:
        money = re.search(r"(?<!\\)\$\s*-?[0-9.]|[0-9]\s*\$\s*$", text)
        if len(bare) > 1 or money is None:
            raise Unreadable("a dollar sign without its partner")
        return text
    return re.sub(r"(?<!\\)\$", " ", text)
