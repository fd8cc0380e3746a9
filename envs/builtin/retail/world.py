"""A random shop on a random day: customers, what they ordered and how they paid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final, TypeVar

import numpy as np

from turngym.envs.builtin.retail import stock
from turngym.envs.builtin.retail.policy import Item, Order, Status, Tier

Thing = TypeVar("Thing")

_FIRST_DAY: Final = date(2025, 1, 1)
_DAYS: Final = 730
_DRAWS: Final = 512
RICH: Final = (100_000, 200_000)
"""Store credit in cents that covers any order."""
POOR: Final = (0, 500)
"""Store credit in cents that covers none."""
CHEAPEST: Final = 600
"""The least that was ever paid for an item, in cents."""


class Dice:
    """Random picks from vectors of uniform numbers: a call of the generator for each would cost the most."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._uniforms: list[float] = []

    def pick(self, low: int, high: int) -> int:
        """An integer from low to high, both included."""
        if not self._uniforms:
            self._uniforms = self._rng.random(_DRAWS).tolist()
        return low + int(self._uniforms.pop() * (high - low + 1))

    def chance(self, percent: int) -> bool:
        """True in so many cases of a hundred."""
        return self.pick(1, 100) <= percent

    def choose(self, things: Sequence[Thing]) -> Thing:
        """One of them."""
        return things[self.pick(0, len(things) - 1)]

    def several(self, things: Sequence[Thing], count: int) -> list[Thing]:
        """So many different ones, in random order."""
        left = list(things)
        return [left.pop(self.pick(0, len(left) - 1)) for _ in range(count)]


@dataclass(frozen=True, slots=True)
class Method:
    """A payment method."""

    method_id: str
    """Its number."""
    kind: str
    """card, wallet or store credit."""
    label: str
    """How people call it."""
    balance: int | None = None
    """In cents, for store credit."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where something is sent."""

    street: str
    """Street and number."""
    city: str
    """Town."""
    postcode: str
    """Five digits."""


@dataclass(frozen=True, slots=True)
class Account:
    """A customer."""

    customer_id: str
    """Its number."""
    name: str
    """First and last name."""
    email: str
    """Lower case."""
    tier: Tier
    """standard or gold."""
    address: Address
    """The account's."""
    methods: tuple[Method, ...]
    """Two cards or wallets, then the store credit."""

    @property
    def credit(self) -> Method:
        """The store credit."""
        return self.methods[-1]


class World:
    """A shop that is being made up.

    Args:
        dice: all randomness.
        poor: True if the customer's store credit covers nothing; nothing is then paid with it or refunded to it.
    """

    def __init__(self, dice: Dice, *, poor: bool = False) -> None:
        self.dice = dice
        self.poor = poor
        self.today = _FIRST_DAY + timedelta(days=dice.pick(0, _DAYS - 1))
        self.account_moves = False
        """True once somebody asks for another address of the account: nobody moves twice in a conversation."""
        self._numbers: set[int] = set()
        # A product occurs once among all orders, so that "the desk lamp" is never two things.
        self._ready_made = dice.several(stock.READY_MADE, 10)
        self._made_to_order = dice.several(stock.MADE_TO_ORDER, 3)
        self._variants: dict[str, list[list[Any]]] = {}
        self.orders: list[tuple[Account, Order, Address]] = []
        """Orders with their owners and where they are sent."""
        last = dice.several(stock.LAST_NAMES, 2)
        first = dice.several(stock.FIRST_NAMES, 3)
        # The second customer has the same last name: telling them apart takes the whole address.
        self.customer = self._account(first[0], last[0])
        self.others = (self._account(first[1], last[0]), self._account(first[2], last[1]))
        self._fill()

    def number(self, digits: int) -> int:
        """A number that nothing else in this world has."""
        while (number := self.dice.pick(10 ** (digits - 1), 10**digits - 1)) in self._numbers:
            pass
        self._numbers.add(number)
        return number

    def address(self) -> Address:
        """A new address."""
        dice = self.dice
        street = f"{dice.pick(1, 199)} {dice.choose(stock.STREETS)}"
        return Address(street, dice.choose(stock.CITIES), str(self.number(5)))

    def order(
        self,
        owner: Account,
        status: Status,
        *,
        age: int,
        delivered: int | None = None,
        final_sale: bool = False,
        made_to_order: bool = False,
        refunded: bool = False,
        method: Method | None = None,
    ) -> Order:
        """Enter an order.

        Args:
            owner: whose it is.
            status: where it is.
            age: days since it was ordered.
            delivered: days since it was delivered.
            final_sale, made_to_order, refunded: of its first item.
            method: that it was paid with; default: a random one.
        """
        dice = self.dice
        order_id = f"W{self.number(6)}"
        items = [self._item(final_sale=final_sale, made_to_order=made_to_order, refunded=refunded)]
        if dice.chance(50) and len(self._ready_made) > 4:
            items.append(self._item())
        usable = owner.methods[:-1] if self.poor else owner.methods
        order = Order(
            order_id,
            status,
            self.today - timedelta(days=age),
            None if delivered is None else self.today - timedelta(days=delivered),
            dice.choose((0, 480, 600, 960)),
            (method or dice.choose(usable)).method_id,
            tuple(items),
        )
        self.orders.append((owner, order, owner.address if dice.chance(70) else self.address()))
        return order

    def variants(self, product: str) -> list[list[Any]]:
        """Rows of a product's variants; made the first time."""
        if product not in self._variants:
            self._variants[product] = self._new_variants(product)
        return self._variants[product]

    @property
    def unasked(self) -> list[str]:
        """Products of the orders that nobody asks about."""
        return [item.product for _, order, _ in self.orders[: 1 + len(self.others)] for item in order.items]

    def _fill(self) -> None:
        """An order of everybody's, which nobody asks about."""
        for owner in (self.customer, *self.others):
            age = self.dice.pick(0, 60)
            if age < 5:
                self.order(owner, "pending", age=age)
            elif age < 9:
                self.order(owner, "shipped", age=age)
            else:
                self.order(owner, "delivered", age=age, delivered=age - self.dice.pick(2, 8))

    def rows(self) -> dict[str, list[list[Any]]]:
        """Everything as rows of the database's tables."""
        accounts = (self.customer, *self.others)
        rows: dict[str, list[list[Any]]] = {
            "customers": [[a.customer_id, a.name, a.email, a.tier] for a in accounts],
            "addresses": [[a.customer_id, *_parts(a.address)] for a in accounts],
            "methods": [
                [m.method_id, a.customer_id, m.kind, m.label, m.balance] for a in accounts for m in a.methods
            ],
            "products": [row for variants in self._variants.values() for row in variants],
            "orders": [],
            "items": [],
            "payments": [],
            "refunds": [],
        }
        for owner, order, address in self.orders:
            delivered_on = None if order.delivered_on is None else order.delivered_on.isoformat()
            ordered_on = order.ordered_on.isoformat()
            rows["orders"].append(
                [order.order_id, owner.customer_id, order.status, ordered_on, delivered_on, order.shipping]
            )
            rows["addresses"].append([order.order_id, *_parts(address)])
            rows["payments"].append([order.order_id, order.method_id, order.total])
            for item in order.items:
                status = "refunded" if item.refunded else "bought"
                rows["items"].append(
                    [item.item_id, order.order_id, item.sku, item.price, int(item.final_sale), status]
                )
                if item.refunded:
                    rows["refunds"].append([order.order_id, item.item_id, order.method_id, item.price])
        return rows

    def _account(self, first: str, last: str) -> Account:
        dice = self.dice
        numbers = [self.number(4) for _ in range(2)]
        cards = [
            Method(f"P{self.number(5)}", "card", f"Visa ending in {numbers[0]}"),
            Method(f"P{self.number(5)}", "card", f"Mastercard ending in {numbers[1]}"),
            Method(f"P{self.number(5)}", "wallet", "PayPal"),
        ]
        balance = dice.pick(*(POOR if self.poor else RICH)) // 20 * 20
        credit = Method(f"P{self.number(5)}", "store credit", "store credit", balance)
        dot = dice.choose((".", "_", ""))
        return Account(
            f"C{self.number(4)}",
            f"{first} {last}",
            f"{first}{dot}{last}{dice.pick(1, 99)}@{dice.choose(stock.MAIL_HOSTS)}".lower(),
            "gold" if dice.chance(30) else "standard",
            self.address(),
            (*dice.several(cards, 2), credit),
        )

    def _item(self, *, final_sale: bool = False, made_to_order: bool = False, refunded: bool = False) -> Item:
        name = (self._made_to_order if made_to_order else self._ready_made).pop()
        row = self.dice.choose(self.variants(name))
        # What was paid may differ from the price today. Multiples of 20 cents keep 15% of them whole.
        price = row[4] if self.dice.chance(70) else max(row[4] + 20 * self.dice.pick(-20, 20), CHEAPEST)
        return Item(f"I{self.number(5)}", row[0], name, row[3], price, final_sale, bool(row[6]), refunded)

    def _new_variants(self, product: str) -> list[list[Any]]:
        dice = self.dice
        category, variants, low, high = stock.PRODUCTS[product]
        made = int(product in stock.MADE_TO_ORDER)
        return [
            [
                f"S{self.number(5)}",
                product,
                variant,
                category,
                20 * dice.pick(low * 5, high * 5),
                dice.pick(1, 40),
                made,
            ]
            for variant in dice.several(variants, 3)
        ]


def _parts(address: Address) -> tuple[str, str, str]:
    return address.street, address.city, address.postcode
