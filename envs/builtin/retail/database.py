"""The shop's database: one SQLite database in memory per episode, copied with it.

Money is in cents, dates are ISO texts, and no table numbers its rows by itself, so that two databases with the same
rows are the same whatever the order in which they came.
"""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Final

Rows = Mapping[str, Sequence[Sequence[Any]]]
"""Rows by table, in the order of the columns."""
Contents = dict[str, list[tuple[Any, ...]]]
"""All rows by table, canonicalised and sorted."""

TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "customers": ("customer_id", "name", "email", "tier"),
    "addresses": ("owner", "street", "city", "postcode"),
    "methods": ("method_id", "customer_id", "kind", "label", "balance"),
    "products": ("sku", "product", "variant", "category", "price", "stock", "made_to_order"),
    "orders": ("order_id", "customer_id", "status", "ordered_on", "delivered_on", "shipping"),
    "items": ("item_id", "order_id", "sku", "price", "final_sale", "status"),
    "payments": ("order_id", "method_id", "amount"),
    "refunds": ("order_id", "item_id", "method_id", "amount"),
    "exchanges": ("order_id", "item_id", "old_sku", "new_sku", "difference"),
    "cancellations": ("order_id", "cancelled_on"),
}
"""Columns by table. An address belongs to a customer (the account's) or to an order; a refund without an item is that
of a whole order."""
_KEYED: Final = (
    "customers",
    "addresses",
    "methods",
    "products",
    "orders",
    "items",
    "payments",
    "cancellations",
)
_TYPES: Final[Mapping[str, str]] = dict.fromkeys(
    ("balance", "price", "stock", "made_to_order", "shipping", "final_sale", "amount", "difference"),
    "INTEGER",
)
_TYPED_BY_PEOPLE: Final = frozenset({"street", "city", "postcode"})


def _table(name: str, columns: Sequence[str]) -> str:
    typed = [f"{column} {_TYPES.get(column, 'TEXT')}" for column in columns]
    if name in _KEYED:
        typed[0] += " PRIMARY KEY NOT NULL"
    return f"CREATE TABLE {name} ({', '.join(typed)}){' WITHOUT ROWID' if name in _KEYED else ''};"


_INSERT: Final = {
    name: f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})" for name, columns in TABLES.items()
}
_SELECT: Final = {name: f"SELECT * FROM {name}" for name in TABLES}


class Database:
    """A database of the shop in memory.

    A copy (also a pickled one) is an image of the whole database, which is opened when it is used.

    Args:
        image: an SQLite file as bytes.
    """

    def __init__(self, image: bytes) -> None:
        self._image = image
        self._open: sqlite3.Connection | None = None

    @classmethod
    def of(cls, rows: Rows) -> Database:
        """A database that holds these rows."""
        database = cls(_empty_image())
        execute = database._connection.executemany
        for name, some in rows.items():
            execute(_INSERT[name], some)
        return database

    @property
    def _connection(self) -> sqlite3.Connection:
        if self._open is None:
            # One episode is stepped by one thread at a time, but not always by the same.
            self._open = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            self._open.deserialize(self._image)
            self._open.execute(
                "BEGIN"
            )  # one for the whole episode: a transaction per statement would cost more
        return self._open

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows that a query gives."""
        return self._connection.execute(statement, values).fetchall()

    def row(self, statement: str, *values: Any) -> tuple[Any, ...] | None:
        """The first row that a query gives, if there is one."""
        found: tuple[Any, ...] | None = self._connection.execute(statement, values).fetchone()
        return found

    def run(self, statement: str, *values: Any) -> None:
        """Execute a statement that changes something."""
        self._connection.execute(statement, values)

    def insert(self, table: str, *values: Any) -> None:
        """Add a row."""
        self._connection.execute(_INSERT[table], values)

    def contents(self) -> Contents:
        """Everything in it, for comparing: sorted, and what people type (addresses) without case and punctuation."""
        found: Contents = {}
        for name, columns in TABLES.items():
            rows = self.rows(_SELECT[name])
            if not _TYPED_BY_PEOPLE.isdisjoint(columns):
                rows = [
                    tuple(
                        canonical(value) if column in _TYPED_BY_PEOPLE else value
                        for column, value in zip(columns, row, strict=True)
                    )
                    for row in rows
                ]
            found[name] = rows if name in _KEYED and name != "addresses" else sorted(rows, key=repr)
        return found

    def __reduce__(self) -> tuple[type[Database], tuple[bytes]]:
        if self._open is None:
            return Database, (self._image,)
        self._open.execute("COMMIT")  # an image holds only what is committed
        image = self._open.serialize()
        self._open.execute("BEGIN")
        return Database, (image,)

    def __del__(self) -> None:
        if self._open is not None:
            self._open.close()


def canonical(text: str) -> str:
    """A text as people compare it: without case, punctuation at the ends of words, and extra spaces."""
    return " ".join(word for part in text.casefold().split() if (word := part.strip(".,;")))


@functools.cache
def _empty_image() -> bytes:
    connection = sqlite3.connect(":memory:")
    connection.execute("PRAGMA page_size = 1024")  # copies are small, and so are the tables
    connection.executescript("".join(_table(name, columns) for name, columns in TABLES.items()))
    image = connection.serialize()
    connection.close()
    return image
