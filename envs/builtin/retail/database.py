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


def _table(name: str, columns: Sequence[str]) -> str:
    typed = [f"{column} {_TYPES.get(column, 'TEXT')}" for column in columns]
    if name in _KEYED:
        typed[0] += " PRIMARY KEY NOT NULL"
    return f"CREATE TABLE {name} ({', '.join(typed)}){' WITHOUT ROWID' if name in _KEYED else ''};"


_HEADER: Final = 100
"""Bytes of the header of an SQLite file."""

_INSERT: Final = {
    name: f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})" for name, columns in TABLES.items()
}
_SELECT: Final = {name: f"SELECT * FROM {name}" for name in TABLES}


class Database:
    """A database of the shop in memory.

    A copy (also a pickled one) is an image of the whole database, which is opened when it is used. `restore` and `load`
    keep the connection, for opening one costs more than both.

    Args:
        image: an SQLite file as bytes; default: all tables, empty.
    """

    def __init__(self, image: bytes | None = None) -> None:
        self._image = _empty_image() if image is None else image
        self._open: sqlite3.Connection | None = None

    def restore(self, image: bytes) -> None:
        """Forget everything and hold what an image of this shop's tables holds."""
        self._image = image
        if self._open is not None:
            self._open.execute("COMMIT")
            self._open.deserialize(image)
            self._open.execute("BEGIN")

    def load(self, rows: Rows) -> None:
        """Forget everything and hold these rows."""
        self.restore(_empty_image())
        execute = self._connection.executemany
        for name, some in rows.items():
            execute(_INSERT[name], some)

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
        found = self.rows(statement, *values)  # read to its end: an unfinished query would hold up `restore`
        return found[0] if found else None

    def run(self, statement: str, *values: Any) -> None:
        """Execute a statement that changes something."""
        self._connection.execute(statement, values)

    def insert(self, table: str, *values: Any) -> None:
        """Add a row."""
        self._connection.execute(_INSERT[table], values)

    def image(self) -> bytes:
        """The whole database, as `Database` takes it."""
        if self._open is not None:
            self._open.execute("COMMIT")  # an image holds only what is committed
            self._image = self._open.serialize()
            self._open.execute("BEGIN")
        return self._image

    def same_as(self, other: Database) -> bool:
        """True if both hold the same rows, whatever their order; addresses are compared as people would."""
        # The same changes in the same order give the same file, but for the counters in its header.
        if self.image()[_HEADER:] == other.image()[_HEADER:]:
            return True
        return all(_same(name, self.rows(_SELECT[name]), other.rows(_SELECT[name])) for name in TABLES)

    def __reduce__(self) -> tuple[type[Database], tuple[bytes]]:
        return Database, (self.image(),)

    def __del__(self) -> None:
        if self._open is not None:
            self._open.close()


def _same(table: str, rows: list[tuple[Any, ...]], others: list[tuple[Any, ...]]) -> bool:
    if rows == others:
        return True
    if table == "addresses":
        rows, others = ([(row[0], *map(canonical, row[1:])) for row in side] for side in (rows, others))
    return sorted(rows, key=repr) == sorted(others, key=repr)


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
