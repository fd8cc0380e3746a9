"""What the shop's till can change: each change is made whole, or refused with a reason.

`Refused` is what the till enforces by itself. It knows nothing of the policy's other rules: who is speaking, whether
they agreed, until when something may come back, which fee is kept, where the money goes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from turngym.envs.builtin.retail.database import Database
from turngym.envs.builtin.retail.lookups import (
    Refused,
    check_customer,
    dollars,
    order_row,
    owner_of,
    payment_of,
)


def cents(amount: float) -> int:
    """A number of dollars in cents.

    Raises:
        Refused: it has parts of a cent.
    """
    whole = round(amount * 100)
    if abs(amount * 100 - whole) > 1e-4:
        raise Refused("an amount has at most two decimals.")
    return whole


def cancel_order(db: Database, order_id: str, today: str) -> int:
    """Cancel a pending order and pay everything back; the amount in cents."""
    _pending(db, order_id)
    method_id, _, amount = payment_of(db, order_id)
    db.run("UPDATE orders SET status = 'cancelled' WHERE order_id = ?", order_id)
    db.run("UPDATE items SET status = 'cancelled' WHERE order_id = ?", order_id)
    db.run(
        "UPDATE products SET stock = stock +"
        " (SELECT count(*) FROM items WHERE order_id = ? AND items.sku = products.sku)",
        order_id,
    )
    db.insert("cancellations", order_id, today)
    _pay_back(db, order_id, None, method_id, amount)
    return amount


def refund_item(db: Database, order_id: str, item_id: str, amount: int, method_id: str) -> None:
    """Take an item back and pay an amount (in cents) for it."""
    _, price = _returnable(db, order_id, item_id)
    if not 0 < amount <= price:
        raise Refused(f"the amount must be more than 0 and at most the price paid, {dollars(price):.2f}.")
    _own_method(db, order_id, method_id)
    db.run("UPDATE items SET status = 'refunded' WHERE item_id = ?", item_id)
    _pay_back(db, order_id, item_id, method_id, amount)


def exchange_item(db: Database, order_id: str, item_id: str, new_sku: str) -> int:
    """Swap an item for another that is in stock; what the customer pays more (or less, if negative) in cents."""
    sku, paid = _returnable(db, order_id, item_id)
    new = db.row("SELECT price, stock FROM products WHERE sku = ?", new_sku)
    if new is None:
        raise Refused(f"there is no article {new_sku[:40]!r}.")
    price, stock = new
    if new_sku == sku:
        raise Refused("this is the article that the customer has.")
    if stock < 1:
        raise Refused("this article is out of stock.")
    difference: int = price - paid
    method_id, _, _ = payment_of(db, order_id)
    if difference > 0:
        _covered(db, method_id, difference)
    db.run(
        "UPDATE methods SET balance = balance - ? WHERE method_id = ? AND balance IS NOT NULL",
        difference,
        method_id,
    )
    db.run("UPDATE products SET stock = stock - 1 WHERE sku = ?", new_sku)
    db.run(
        "UPDATE items SET sku = ?, price = ?, status = 'exchanged' WHERE item_id = ?", new_sku, price, item_id
    )
    db.insert("exchanges", order_id, item_id, sku, new_sku, difference)
    return difference


def change_order_address(db: Database, order_id: str, street: str, city: str, postcode: str) -> None:
    """Send a pending order to another address."""
    _pending(db, order_id)
    _move(db, order_id, street, city, postcode)


def change_account_address(db: Database, customer_id: str, street: str, city: str, postcode: str) -> None:
    """Change the address of an account; its orders keep theirs."""
    check_customer(db, customer_id)
    _move(db, customer_id, street, city, postcode)


def change_payment(db: Database, order_id: str, method_id: str) -> None:
    """Pay a pending order with another of the customer's methods; the old one gets its money back."""
    _pending(db, order_id)
    old, _, amount = payment_of(db, order_id)
    _own_method(db, order_id, method_id)
    if method_id == old:
        raise Refused("the order is paid with this method already.")
    _covered(db, method_id, amount)
    db.run(
        "UPDATE methods SET balance = balance + ? WHERE method_id = ? AND balance IS NOT NULL", amount, old
    )
    db.run(
        "UPDATE methods SET balance = balance - ? WHERE method_id = ? AND balance IS NOT NULL",
        amount,
        method_id,
    )
    db.run("UPDATE payments SET method_id = ? WHERE order_id = ?", method_id, order_id)


_CHANGES: Final[Mapping[str, Callable[..., Any]]] = {
    function.__name__: function
    for function in (
        cancel_order,
        refund_item,
        exchange_item,
        change_order_address,
        change_account_address,
        change_payment,
    )
}


def apply(db: Database, name: str, arguments: Mapping[str, Any], today: str) -> None:
    """Make a change by name, with arguments as the agent's tools take them.

    Raises:
        Refused: the till does not do that.
    """
    given = dict(arguments)
    if name == "cancel_order":
        given["today"] = today
    elif name == "refund_item":
        given["amount"] = cents(given["amount"])
    _CHANGES[name](db, **given)


def _pending(db: Database, order_id: str) -> None:
    status = order_row(db, order_id)[1]
    if status != "pending":
        raise Refused(f"order {order_id} is {status}, not pending.")


def _returnable(db: Database, order_id: str, item_id: str) -> tuple[str, int]:
    """Article and price of an item that the till would take back."""
    status = order_row(db, order_id)[1]
    row = db.row("SELECT sku, price, status FROM items WHERE item_id = ? AND order_id = ?", item_id, order_id)
    if row is None:
        raise Refused(f"order {order_id} has no item {item_id[:40]!r}.")
    if status != "delivered":
        raise Refused(f"order {order_id} is {status}, not delivered.")
    sku, price, item_status = row
    if item_status != "bought":
        raise Refused(f"item {item_id} is {item_status} already.")
    return sku, price


def _own_method(db: Database, order_id: str, method_id: str) -> None:
    owner = db.row("SELECT customer_id FROM methods WHERE method_id = ?", method_id)
    if owner is None or owner[0] != owner_of(db, order_id):
        raise Refused(f"the customer of order {order_id} has no payment method {method_id[:40]!r}.")


def _covered(db: Database, method_id: str, amount: int) -> None:
    row = db.row("SELECT balance FROM methods WHERE method_id = ?", method_id)
    if row is not None and row[0] is not None and row[0] < amount:
        raise Refused(f"the balance of {method_id} does not cover {dollars(amount):.2f}.")


def _pay_back(db: Database, order_id: str, item_id: str | None, method_id: str, amount: int) -> None:
    db.run(
        "UPDATE methods SET balance = balance + ? WHERE method_id = ? AND balance IS NOT NULL",
        amount,
        method_id,
    )
    db.insert("refunds", order_id, item_id, method_id, amount)


def _move(db: Database, owner: str, street: str, city: str, postcode: str) -> None:
    db.run(
        "UPDATE addresses SET street = ?, city = ?, postcode = ? WHERE owner = ?",
        street,
        city,
        postcode,
        owner,
    )
