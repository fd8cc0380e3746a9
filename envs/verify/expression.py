"""Formulas as trees: sums, products, powers, roots and the usual functions of numbers and names.

    read_expression(tokens("2x+1"))     # ("add", (("mul", (("num", 2), ("name", "x"))), ("num", 1)))

A tree is a tuple: what it is, and its parts. What stands for work still to be done (integrals, sums, limits,
derivatives, determinants) is no part of this language: an answer is worked out.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from turngym.envs.verify.errors import Unreadable
from turngym.envs.verify.tokens import Token
from turngym.envs.verify.trees import (
    CONSTANTS,
    FUNCTIONS,
    GREEK,
    MINUS_ONE,
    Tree,
    inverse,
    negative,
    number,
    product,
    total,
)

_INVERSES: Final = {"sin": "asin", "cos": "acos", "tan": "atan"}
_LONGEST_PRODUCT: Final = 3
"""Letters in a row that are a product of names; more of them are a word."""
_DEEPEST: Final = 40


def read_expression(tokens: Sequence[Token]) -> Tree:
    """The tree of all the tokens.

    Raises:
        Unreadable: they are no expression.
    """
    reader = _Reader(tokens)
    tree = reader.sum(0)
    if reader.token is not None:
        raise Unreadable(f"{reader.token.text!r} where an operator or the end is expected")
    return tree


class _Reader:
    """A recursive descent over tokens."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.place = 0
        self.bars = 0

    @property
    def token(self) -> Token | None:
        return self.tokens[self.place] if self.place < len(self.tokens) else None

    def is_op(self, *texts: str) -> bool:
        token = self.token
        return token is not None and token.kind == "op" and token.text in texts

    def is_cmd(self, *texts: str) -> bool:
        token = self.token
        return token is not None and token.kind == "cmd" and token.text in texts

    def take(self, text: str) -> None:
        if not self.is_op(text):
            found = self.token.text if self.token else "the end"
            raise Unreadable(f"{text!r} is expected, not {found!r}")
        self.place += 1

    def sum(self, depth: int) -> Tree:
        if depth > _DEEPEST:
            raise Unreadable("a formula is nested too deeply")
        parts = [self.signed(depth)]
        while self.is_op("+", "-"):
            is_negative = self.is_op("-")
            self.place += 1
            part = self.signed(depth)
            parts.append(negative(part) if is_negative else part)
        return total(parts)

    def signed(self, depth: int) -> Tree:
        """A product with signs before it."""
        is_negative = False
        while self.is_op("+", "-"):
            is_negative ^= self.is_op("-")
            self.place += 1
        tree = self.term(depth)
        return negative(tree) if is_negative else tree

    def term(self, depth: int) -> Tree:
        parts = [self.power(depth)]
        while True:
            if self.is_op("*", "/"):
                divides = self.is_op("/")
                self.place += 1
                factor = self.signed_power(depth)
                parts.append(inverse(factor) if divides else factor)
            elif self.starts_factor():
                parts.append(self.power(depth))
            else:
                return product(parts)

    def signed_power(self, depth: int) -> Tree:
        is_negative = False
        while self.is_op("+", "-"):
            is_negative ^= self.is_op("-")
            self.place += 1
        tree = self.power(depth)
        return negative(tree) if is_negative else tree

    def starts_factor(self) -> bool:
        """Whether a factor follows without a sign of multiplication. A number never does: x2 is no product."""
        token = self.token
        if token is None:
            return False
        if token.kind == "op":
            return token.text in ("(", "[", "{") or (token.text == "|" and self.bars == 0)
        return token.kind in ("letters", "cmd") or (token.kind == "word" and len(token.text) == 1)

    def power(self, depth: int) -> Tree:
        base = self.postfix(self.atom(depth), depth)
        if self.is_op("^"):
            self.place += 1
            if self.is_op("°") or self.is_cmd("circ"):
                self.place += 1
                return ("deg", base)
            if self.is_op("{") and self._is_degree():
                self.place += 3
                return ("deg", base)
            return self.postfix(("pow", base, self.exponent(depth + 1)), depth)
        return base

    def _is_degree(self) -> bool:
        inner = self.tokens[self.place + 1 : self.place + 3]
        return len(inner) == 2 and inner[0].text in ("circ", "°") and inner[1].text == "}"

    def exponent(self, depth: int) -> Tree:
        if depth > _DEEPEST:
            raise Unreadable("a formula is nested too deeply")
        return self.signed_power(depth)

    def postfix(self, tree: Tree, depth: int) -> Tree:  # noqa: ARG002
        if self.is_op("!"):
            self.place += 1
            if self.is_op("!"):
                raise Unreadable("two factorial signs")
            return ("fact", tree)
        if self.is_op("°"):
            self.place += 1
            return ("deg", tree)
        return tree

    def atom(self, depth: int) -> Tree:
        token = self.token
        if token is None:
            raise Unreadable("something is missing at the end")
        if depth > _DEEPEST:
            raise Unreadable("a formula is nested too deeply")
        self.place += 1
        if token.kind == "num":
            return self.after_number(number(token.value), depth)
        if token.kind == "op":
            return self.bracketed(token.text, depth)
        if token.kind == "cmd":
            return self.command(token.text, depth)
        return self.letters(token, depth)

    def after_number(self, tree: Tree, depth: int) -> Tree:
        """A number, or a mixed number: 2\\frac{1}{2} and 2 1/2."""
        if tree[1].denominator == 1 and self.is_cmd("frac"):
            start = self.place
            self.place += 1
            above, below = self.argument(depth + 1), self.argument(depth + 1)
            if _is_whole(above) and _is_whole(below) and 0 < above[1] < below[1]:
                return number(tree[1] + above[1] / below[1])
            self.place = start
            return tree
        rest = self.tokens[self.place : self.place + 3]
        if (
            tree[1].denominator == 1
            and [t.text if t.kind == "op" else t.kind for t in rest] == ["num", "/", "num"]
            and rest[0].is_spaced
            and rest[0].value.denominator == rest[2].value.denominator == 1
            and 0 < rest[0].value < rest[2].value
        ):
            self.place += 3
            return number(tree[1] + rest[0].value / rest[2].value)
        return tree

    def bracketed(self, opening: str, depth: int) -> Tree:
        if opening in ("(", "[", "{"):
            bars, self.bars = self.bars, 0
            tree = self.sum(depth + 1)
            self.bars = bars
            self.take({"(": ")", "[": "]", "{": "}"}[opening])
            return tree
        if opening == "|":
            self.bars += 1
            tree = self.sum(depth + 1)
            self.bars -= 1
            self.take("|")
            return ("fn", "abs", tree)
        raise Unreadable(f"{opening!r} where a number or a name is expected")

    def command(self, name: str, depth: int) -> Tree:
        if name == "frac":
            above = self.argument(depth + 1)
            return ("mul", (above, inverse(self.argument(depth + 1))))
        if name == "sqrt":
            return self.root(depth)
        if name == "binom":
            return ("binom", self.argument(depth + 1), self.argument(depth + 1))
        if name in ("lfloor", "lceil"):
            tree = self.sum(depth + 1)
            if not self.is_cmd("r" + name[1:]):
                raise Unreadable(f"\\{name} is not closed")
            self.place += 1
            return ("fn", name[1:], tree)
        if name in CONSTANTS:
            return ("const", CONSTANTS[name])
        if name in FUNCTIONS or name in ("log", "lg"):
            return self.function(name, depth)
        if name in GREEK:
            return self.named(name, depth)
        raise Unreadable(f"\\{name} is not read here")

    def argument(self, depth: int) -> Tree:
        """What a command takes: braces, or one digit or letter."""
        token = self.token
        if token is None:
            raise Unreadable("a command without its argument")
        if self.is_op("{"):
            self.place += 1
            tree = self.sum(depth + 1)
            self.take("}")
            return tree
        if token.kind == "num" and token.text.isdigit() and len(token.text) > 1:  # \frac12 is a half
            return self.digit(token)
        self.place += 1
        if token.kind == "num":
            return number(token.value)
        if token.kind == "letters":
            return self.letters(token, depth)
        if token.kind == "cmd":
            return self.command(token.text, depth)
        raise Unreadable(f"{token.text!r} is no argument")

    def digit(self, token: Token) -> Tree:
        """The first digit of a number; the others stay where they are."""
        rest = token.text[1:]
        self.place += 1
        self.put_back(Token("num", rest, Fraction(int(rest))))
        return number(int(token.text[0]))

    def put_back(self, rest: Token) -> None:
        """Put what is left of the token just taken in its place."""
        self.place -= 1
        self.tokens = [*self.tokens[: self.place], rest, *self.tokens[self.place + 1 :]]

    def root(self, depth: int) -> Tree:
        degree: Tree = number(2)
        if self.is_op("["):
            self.place += 1
            degree = self.sum(depth + 1)
            self.take("]")
        if self.is_op("("):
            return ("root", degree, self.atom(depth + 1))
        return ("root", degree, self.argument(depth + 1))

    def letters(self, token: Token, depth: int) -> Tree:
        text = token.text
        lowered = text.lower() if len(text) > 1 else text
        if len(text) > 1 and lowered in CONSTANTS:
            return ("const", CONSTANTS[lowered])
        if lowered == "sqrt":
            return self.root(depth)
        if lowered in FUNCTIONS or lowered in ("log", "lg"):
            return self.function(lowered, depth)
        if len(text) > _LONGEST_PRODUCT or (token.kind == "word" and len(text) > 1):
            raise Unreadable(f"{text!r} is a word")
        if len(text) > 1:  # ab² is a · b²: the other letters stay where they are
            self.put_back(token._replace(text=text[1:], is_spaced=False))
            return _letter(text[0])
        return self.named(text, depth)

    def named(self, name: str, depth: int) -> Tree:
        """A name, perhaps with a subscript."""
        if not self.is_op("_"):
            return _letter(name)
        self.place += 1
        start = self.place
        self.argument(depth + 1)
        inside = "".join(token.text for token in self.tokens[start : self.place]).strip("{}")
        return ("name", f"{name}_{inside}")

    def function(self, name: str, depth: int) -> Tree:
        if depth > _DEEPEST:
            raise Unreadable("a formula is nested too deeply")
        base: Tree = number(10)
        if self.is_op("_"):
            if name != "log":
                raise Unreadable(f"{name} has no subscript")
            self.place += 1
            base = self.argument(depth + 1)
        exponent: Tree | None = None
        if self.is_op("^"):
            self.place += 1
            exponent = self.exponent(depth + 1)
        argument = self.function_argument(depth + 1)
        if exponent == MINUS_ONE and name in _INVERSES:
            return ("fn", _INVERSES[name], argument)
        is_log = name in ("log", "lg")
        tree: Tree = ("log", base, argument) if is_log else ("fn", FUNCTIONS[name], argument)
        if exponent is not None:
            return ("pow", tree, exponent)
        if self.is_op("^"):  # \sin(x)^2
            self.place += 1
            return ("pow", tree, self.exponent(depth + 1))
        return tree

    def function_argument(self, depth: int) -> Tree:
        """Brackets, or all factors up to a sign, a bracket or another function."""
        if self.is_op("(", "[", "{"):
            return self.atom(depth)
        is_negative = self.is_op("-")
        if is_negative:
            self.place += 1
        parts = [self.power(depth)]
        while (token := self.token) is not None and self.starts_factor() and token.kind != "op":
            if token.text.lower() in FUNCTIONS or token.text in ("log", "lg"):
                break
            parts.append(self.power(depth))
        tree = product(parts)
        return negative(tree) if is_negative else tree


def _letter(name: str) -> Tree:
    return ("const", CONSTANTS[name]) if name in CONSTANTS else ("name", name)


def _is_whole(tree: Tree) -> bool:
    return bool(tree[0] == "num" and tree[1].denominator == 1)
