"""Questions whose answer is one integer that is found by computing it: a few lines of Python, or hours by hand.

Each kind draws its parameters, states the question, computes the answer here, and gives a program that prints it (for
the reference policy).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Pick = Callable[[int, int], int]


@dataclass(frozen=True, slots=True)
class Question:
    """One question."""

    text: str
    answer: int
    program: str
    """Prints the answer."""


def power_digits(pick: Pick) -> Question:
    """The sum of the digits of a power."""
    base, exponent = pick(3, 99), pick(20, 150)
    return Question(
        f"What is the sum of the decimal digits of {base} to the power of {exponent}?",
        sum(map(int, str(base**exponent))),
        f"print(sum(map(int, str({base} ** {exponent}))))",
    )


def divisible_numbers(pick: Pick) -> Question:
    """Multiples of one of two numbers whose digit sum is odd."""
    most, a, b = pick(300, 3000), pick(3, 12), pick(13, 40)
    program = (
        f"print(sum(1 for n in range(1, {most} + 1)\n"
        f"    if (n % {a} == 0 or n % {b} == 0) and sum(map(int, str(n))) % 2 == 1))"
    )
    found = sum(
        1 for n in range(1, most + 1) if (n % a == 0 or n % b == 0) and sum(map(int, str(n))) % 2 == 1
    )
    text = (
        f"How many integers from 1 to {most} are divisible by {a} or by {b} (or both) and have an odd sum of "
        "decimal digits?"
    )
    return Question(text, found, program)


def recurrence(pick: Pick) -> Question:
    """A term of a linear recurrence, modulo a number."""
    a, b, p, q = pick(0, 9), pick(1, 9), pick(1, 9), pick(1, 9)
    modulus, index = pick(100, 9999), pick(50, 500)
    x, y = a, b
    for _ in range(index):
        x, y = y, (p * y + q * x) % modulus
    program = (
        f"x, y = {a}, {b}\nfor _ in range({index}):\n    x, y = y, ({p} * y + {q} * x) % {modulus}\nprint(x)"
    )
    text = (
        f"A sequence begins with x_0 = {a} and x_1 = {b}, and goes on with x_(n+2) = ({p}·x_(n+1) + {q}·x_n) mod "
        f"{modulus}. What is x_{index}?"
    )
    return Question(text, x, program)


def change(pick: Pick) -> Question:
    """Ways of paying an amount with coins."""
    coins = sorted({1, pick(2, 5), pick(6, 12), pick(13, 30)})
    amount = pick(80, 400)
    ways = [1] + [0] * amount
    for coin in coins:
        for n in range(coin, amount + 1):
            ways[n] += ways[n - coin]
    program = (
        f"ways = [1] + [0] * {amount}\nfor coin in {coins}:\n    for n in range(coin, {amount} + 1):\n"
        "        ways[n] += ways[n - coin]\nprint(ways[-1])"
    )
    listed = ", ".join(map(str, coins))
    text = f"In how many ways can {amount} be paid with coins of {listed}, in any number, if order does not matter?"
    return Question(text, ways[-1], program)


def longest_collatz(pick: Pick) -> Question:
    """The start below a bound whose Collatz sequence is longest; the smallest one, if there are several."""
    low = pick(100, 2000)
    high = low + pick(20, 60)

    def steps(n: int) -> int:
        count = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            count += 1
        return count

    best = max(range(low, high + 1), key=steps)
    program = (
        "def steps(n):\n    count = 0\n    while n != 1:\n        n = n // 2 if n % 2 == 0 else 3 * n + 1\n"
        f"        count += 1\n    return count\nprint(max(range({low}, {high} + 1), key=steps))"
    )
    text = (
        "From n, go to n/2 if n is even and to 3n + 1 if it is odd, until 1 is reached. Which n from "
        f"{low} to {high} needs the most steps? If several do, give the smallest."
    )
    return Question(text, best, program)


def common_divisors(pick: Pick) -> Question:
    """Pairs without a common divisor."""
    rows, columns = pick(15, 60), pick(15, 60)
    count = sum(math.gcd(i, j) == 1 for i in range(1, rows + 1) for j in range(1, columns + 1))
    program = (
        "from math import gcd\n"
        f"print(sum(gcd(i, j) == 1 for i in range(1, {rows} + 1) for j in range(1, {columns} + 1)))"
    )
    text = f"How many pairs (i, j) with 1 ≤ i ≤ {rows} and 1 ≤ j ≤ {columns} have no common divisor greater than 1?"
    return Question(text, count, program)


def increasing_run(pick: Pick) -> Question:
    """The longest strictly increasing subsequence of a pseudo-random sequence."""
    x, a, c, m, length = pick(1, 99), pick(2, 50), pick(1, 99), pick(101, 997), pick(20, 60)
    values = [x]
    for _ in range(length - 1):
        values.append((a * values[-1] + c) % m)
    best: list[int] = []
    for n, value in enumerate(values):
        best.append(1 + max((best[k] for k in range(n) if values[k] < value), default=0))
    program = (
        f"xs = [{x}]\nfor _ in range({length - 1}):\n    xs.append(({a} * xs[-1] + {c}) % {m})\nbest = []\n"
        "for n, value in enumerate(xs):\n"
        "    best.append(1 + max((best[k] for k in range(n) if xs[k] < value), default=0))\nprint(max(best))"
    )
    text = (
        f"A sequence of {length} numbers begins with {x}; after each x comes ({a}·x + {c}) mod {m}. How long is its "
        "longest strictly increasing subsequence?"
    )
    return Question(text, max(best), program)


KINDS: dict[str, Callable[[Pick], Question]] = {
    "digits": power_digits,
    "divisible": divisible_numbers,
    "recurrence": recurrence,
    "change": change,
    "collatz": longest_collatz,
    "divisors": common_divisors,
    "increasing": increasing_run,
}
"""Every kind of question, by name."""


def picker(rng: np.random.Generator) -> Pick:
    """Integers from a generator, both ends included."""
    return lambda low, high: int(rng.integers(low, high + 1))
