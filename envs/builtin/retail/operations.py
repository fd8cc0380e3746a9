"""What the shop's till can do: look-ups as JSON data, and changes that are made whole or refused with a reason.

`Refused` is what the till enforces by itself. It knows nothing of the policy's other rules: who is speaking, whether they
agreed, until when something may come back, which fee is kept, where the money goes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from turngym.envs.builtin.retail.database import Database

Data = dict[str, Any]


class Refused(ValueError):
    """The till does not do that; the message says why, and nothing was changed."""


def dollars(cents: int) -> float:
    """Cents as a number of dollars, as the tools show it."""
    return cents / 100


def cents(amount: float) -> int:
    """A number of dollars in cents.

    Raises:
        Refused: it has parts of a cent.
    """
    whole = round(amount * 100)
    if abs(amount * 100 - whole) > 1e-4:
        raise Refused("an amount has at most two decimals.")
    return whole


def find_customer(db: Database, email: str) -> Data:
    """The account of an email address."""
    row = db.row(
        "SELECT customer_id, name, email, tier FROM customers WHERE email = ?", email.strip().lower()
    )
    if row is None:
        raise Refused("there is no account with this email address.")
    methods = db.rows("SELECT method_id, kind, label, balance FROM methods WHERE customer_id = ?", row[0])
    return {
        "customer_id": row[0],
        "name": row[1],
        "email": row[2],
        "tier": row[3],
        "address": _address(db, row[0]),
        "payment_methods": [_method(*method) for method in methods],
    }


def list_orders(db: Database, customer_id: str) -> list[Data]:
    """A customer's orders in short."""
    _customer(db, customer_id)
    orders: dict[str, Data] = {}
    for order_id, status, ordered_on, product in db.rows(
        "SELECT order_id, orders.status, ordered_on, product FROM orders JOIN items USING (order_id) JOIN products USING (sku)"
        " WHERE customer_id = ? ORDER BY order_id, item_id",
        customer_id,
    ):
        order = {"order_id": order_id, "status": status, "ordered_on": ordered_on, "products": []}
        orders.setdefault(order_id, order)["products"].append(product)
    return list(orders.values())


def get_order(db: Database, order_id: str) -> Data:
    """An order with its items, payment, address, and what has been refunded."""
    customer_id, status, ordered_on, delivered_on, shipping = _order(db, order_id)
    method_id, label, amount = _payment(db, order_id)
    items = db.rows(
        "SELECT item_id, sku, product, variant, category, items.price, final_sale, made_to_order, status"
        " FROM items JOIN products USING (sku) WHERE order_id = ? ORDER BY item_id",
        order_id,
    )
    return {
        "order_id": order_id,
        "customer_id": customer_id,
        "status": status,
        "ordered_on": ordered_on,
        "delivered_on": delivered_on,
        "address": _address(db, order_id),
        "items": [
            {
                "item_id": item_id,
                "sku": sku,
                "product": product,
                "variant": variant,
                "category": category,
                "price": dollars(price),
                "final_sale": bool(final_sale),
                "made_to_order": bool(made_to_order),
                "status": item_status,
            }
            for item_id, sku, product, variant, category, price, final_sale, made_to_order, item_status in items
        ],
        "shipping": dollars(shipping),
        "paid": dollars(amount),
        "payment_method": {"method_id": method_id, "label": label},
    }


def find_product(db: Database, product: str) -> list[Data]:
    """The variants of a product."""
    rows = db.rows(
        "SELECT sku, product, variant, price, stock FROM products WHERE product = ? COLLATE NOCASE ORDER BY sku",
        product.strip(),
    )
    if not rows:
        raise Refused("there is no product of this name.")
    return [
        {"sku": sku, "product": name, "variant": variant, "price": dollars(price), "stock": stock}
        for sku, name, variant, price, stock in rows
    ]


def cancel_order(db: Database, order_id: str, today: str) -> int:
    """Cancel a pending order and pay everything back; the amount in cents."""
    _pending(db, order_id)
    method_id, _, amount = _payment(db, order_id)
    db.run("UPDATE orders SET status = 'cancelled' WHERE order_id = ?", order_id)
    db.run("UPDATE items SET status = 'cancelled' WHERE order_id = ?", order_id)
    db.run(
        "UPDATE products SET stock = stock + (SELECT count(*) FROM items WHERE order_id = ? AND items.sku = products.sku)",
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
    method_id, _, _ = _payment(db, order_id)
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
    _customer(db, customer_id)
    _move(db, customer_id, street, city, postcode)


def change_payment(db: Database, order_id: str, method_id: str) -> None:
    """Pay a pending order with another of the customer's methods; the old one gets its money back."""
    _pending(db, order_id)
    old, _, amount = _payment(db, order_id)
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


def owner_of(db: Database, order_id: str) -> str:
    """The customer whose order it is."""
    owner: str = _order(db, order_id)[0]
    return owner


def _customer(db: Database, customer_id: str) -> None:
    if db.row("SELECT 1 FROM customers WHERE customer_id = ?", customer_id) is None:
        raise Refused(f"there is no customer {customer_id[:40]!r}.")


def _order(db: Database, order_id: str) -> tuple[Any, ...]:
    row = db.row(
        "SELECT customer_id, status, ordered_on, delivered_on, shipping FROM orders WHERE order_id = ?",
        order_id,
    )
    if row is None:
        raise Refused(f"there is no order {order_id[:40]!r}.")
    return row


def _pending(db: Database, order_id: str) -> None:
    status = _order(db, order_id)[1]
    if status != "pending":
        raise Refused(f"order {order_id} is {status}, not pending.")


def _payment(db: Database, order_id: str) -> tuple[str, str, int]:
    ((method_id, label, amount),) = db.rows(
        "SELECT method_id, label, amount FROM payments JOIN methods USING (method_id) WHERE order_id = ?",
        order_id,
    )
    return method_id, label, amount


def _returnable(db: Database, order_id: str, item_id: str) -> tuple[str, int]:
    """Article and price of an item that the till would take back."""
    status = _order(db, order_id)[1]
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


def _address(db: Database, owner: str) -> Data:
    row = db.row("SELECT street, city, postcode FROM addresses WHERE owner = ?", owner)
    return dict(zip(("street", "city", "postcode"), row or (), strict=False))


def _method(method_id: str, kind: str, label: str, balance: int | None) -> Data:
    shown = {"method_id": method_id, "kind": kind, "label": label}
    return shown if balance is None else shown | {"balance": dollars(balance)}
