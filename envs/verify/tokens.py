"""A formula as a list of tokens: LaTeX and plain notation come out the same, layout and styles are gone.

    tokens(r"\\dfrac{1{,}234}{2}\\,\\text{cm}")    # \\frac { 1234 } { 2 } and the word cm

Numbers are exact here: 0.1 is one tenth, 1,234 is 1234 (a comma parts thousands only outside brackets), and
0.\\overline{3} is a third.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final, NamedTuple

from turngym.envs.verify.characters import plain
from turngym.envs.verify.errors import Unreadable
from turngym.envs.verify.literals import read_literal

MOST_CHARACTERS: Final = 2_000
"""The longest text that is read."""
_DEEPEST: Final = 12


class Token(NamedTuple):
    """One token."""

    kind: str
    """"num", "letters" (a run of them in a formula), "word" (a run of them in a text), "cmd", or "op"."""
    text: str
    """Its spelling; commands without their backslash."""
    value: Fraction = Fraction(0)
    """Of a number."""
    is_spaced: bool = False
    """True if white space comes before it."""


_OPERATORS: Final = {
    "cdot": "*", "times": "*", "ast": "*", "div": "/", "pm": "±", "le": "≤", "leq": "≤", "leqslant": "≤",
    "ge": "≥", "geq": "≥", "geqslant": "≥", "ne": "≠", "neq": "≠", "lt": "<", "gt": ">", "cup": "∪", "in": "∈",
    "mid": "|", "vert": "|", "lvert": "|", "rvert": "|", "lbrace": "⦃", "rbrace": "⦄", "{": "⦃", "}": "⦄", "%": "%",
    "$": "$", "&": "and", "lbrack": "[", "rbrack": "]", "langle": "(", "rangle": ")", "colon": ":", "degree": "°",
    "to": "→", "rightarrow": "→", "\\": "newrow", "backslash": "setminus", "lparen": "(", "rparen": ")",
}  # fmt: skip
_COMMANDS: Final = {
    "dfrac": "frac", "tfrac": "frac", "cfrac": "frac", "sfrac": "frac", "varnothing": "emptyset", "R": "reals",
    "Reals": "reals", "dbinom": "binom", "tbinom": "binom", "varphi": "phi", "varepsilon": "epsilon",
    "smallsetminus": "setminus",
}  # fmt: skip
_LAYOUT_NAMES: Final = """
left right bigl bigr big Big Bigl Bigr biggl biggr displaystyle textstyle scriptstyle limits nolimits quad qquad
rm bf it sf tt"""
_LAYOUT: Final = frozenset(_LAYOUT_NAMES.split()) | {"!", ";", ":", " ", "(", ")", "[", "]", ">"}
_TEXT_NAMES: Final = "text textbf textit textrm textnormal textsf texttt textup mbox hbox emph"
_TEXTS: Final = frozenset(_TEXT_NAMES.split())
_STYLE_NAMES: Final = (
    "mathrm mathbf mathit mathsf mathtt mathcal boldsymbol bm operatorname boxed fbox mathop"
)
_STYLES: Final = frozenset(_STYLE_NAMES.split())
_SINGLES: Final = frozenset("+-*/^_!=<>≤≥≠∪∈±,;:()[]{}|%&°'$€£→")

_LETTERS: Final = re.compile(r"[A-Za-z]+")
_COMMAND: Final = re.compile(r"\\([A-Za-z]+|.)", re.DOTALL)
_ENVIRONMENT: Final = re.compile(r"\s*\{\s*([a-zA-Z]+)\*?\s*\}")


def tokens(text: str) -> list[Token]:
    """The tokens of a formula.

    Raises:
        Unreadable: it holds a character, a command or a number that is none of any formula.
    """
    if len(text) > MOST_CHARACTERS:
        raise Unreadable(f"an answer has at most {MOST_CHARACTERS} characters, not {len(text)}")
    if text.lstrip(" $").startswith("~"):
        raise Unreadable("about a value is no value")
    return _Scanner(plain(text)).run()


class _Scanner:
    """Reads one text from left to right."""

    def __init__(self, text: str, *, is_text: bool = False, depth: int = 0) -> None:
        if depth > _DEEPEST:
            raise Unreadable("styles are nested too deeply")
        self.text = text
        self.is_text = is_text
        self.depth = depth
        self.brackets = 0
        self.place = 0
        self.is_spaced = False
        self.found: list[Token] = []

    def run(self) -> list[Token]:
        while self.place < len(self.text):
            character = self.text[self.place]
            if character in " \t\r\n\ue001~":
                self.place += 1
                self.is_spaced = True
            elif character == "\\":
                self._command()
            elif (
                character == "." and self.is_text and not self.text[self.place + 1 : self.place + 2].isdigit()
            ):
                self.place += 1  # of an abbreviation
            elif character in "0123456789.":
                self._number()
            elif match := _LETTERS.match(self.text, self.place):
                self.place = match.end()
                self._add("word" if self.is_text else "letters", match[0])
            elif character.isalpha():
                self.place += 1
                self._add("word", character.lower())
            else:
                self._single(character)
        return self.found

    def _add(self, kind: str, text: str, value: Fraction = Fraction(0)) -> None:
        self.found.append(Token(kind, text, value, self.is_spaced))
        self.is_spaced = False

    def _single(self, character: str) -> None:
        if character not in _SINGLES:
            raise Unreadable(f"{character!r} is part of no formula")
        pair = self.text[self.place : self.place + 2]
        self.place += 1
        if pair in ("<=", ">=", "!=", "**"):
            self.place += 1
            character = {"<=": "≤", ">=": "≥", "!=": "≠", "**": "^"}[pair]
        self._operator(character)

    def _operator(self, character: str) -> None:
        if character in "([⦃":
            self.brackets += 1
        elif character in ")]⦄":
            self.brackets -= 1
        self._add("op", character)

    def _command(self) -> None:
        match = _COMMAND.match(self.text, self.place)
        if match is None:
            raise Unreadable("a backslash at the end")
        name = match[1]
        self.place = match.end()
        if name in _LAYOUT:
            self.is_spaced = True
        elif name in _TEXTS or name in _STYLES:
            self._styled(name)
        elif name in _OPERATORS:
            operator = _OPERATORS[name]
            if len(operator) == 1:
                self._operator(operator)
            else:
                self._add("letters" if operator == "and" else "cmd", operator)
        elif name in ("begin", "end"):
            self._environment(name)
        elif name == "mathbb":
            self._blackboard()
        elif name.isalpha():
            self._add("cmd", _COMMANDS.get(name, name))
        else:
            raise Unreadable(f"\\{name} is part of no formula")

    def _styled(self, name: str) -> None:
        """The content of a style, in place; letters of a text are words."""
        content = self._argument()
        is_text = self.is_text or name in _TEXTS
        if name == "mathrm" and len(content.strip()) > 1 and content.strip().isalpha():
            is_text = True
        inner = _Scanner(content, is_text=is_text, depth=self.depth + 1)
        inner.brackets = self.brackets
        inner.is_spaced = self.is_spaced or name in _TEXTS
        self.found += inner.run()
        self.is_spaced = False

    def _argument(self) -> str:
        """What is in the next braces, or the next character."""
        while self.place < len(self.text) and self.text[self.place].isspace():
            self.place += 1
        if self.place == len(self.text):
            raise Unreadable("a command without its argument")
        if self.text[self.place] != "{":
            self.place += 1
            return self.text[self.place - 1]
        end = closing(self.text, self.place)
        if end is None:
            raise Unreadable("a brace is not closed")
        content = self.text[self.place + 1 : end]
        self.place = end + 1
        return content

    def _environment(self, name: str) -> None:
        match = _ENVIRONMENT.match(self.text, self.place)
        if match is None:
            raise Unreadable(f"\\{name} without a name")
        self.place = match.end()
        self._add("cmd", f"{name} {match[1]}")

    def _blackboard(self) -> None:
        name = self._argument().strip()
        self._add("cmd", "reals" if name == "R" else f"mathbb {name}")

    def _number(self) -> None:
        value, end = read_literal(self.text, self.place, has_commas=self.brackets <= 0)
        spelling = self.text[self.place : end]
        self.place = end
        self._add("num", spelling, value)


def closing(text: str, opening: int) -> int | None:
    """Where the brace that is opened at a place is closed; None if it is not. Escaped braces do not count."""
    depth = 0
    place = opening
    while place < len(text):
        character = text[place]
        if character == "\\":
            place += 1
        elif character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                return place
        place += 1
    return None
