"""What the shop's desk can look up, as JSON data."""

from __future__ import annotations

from typing import Any

from turngym.envs.builtin.retail.database import Database

Data = dict[str, Any]


class Refused(ValueError):
    """The till does not do that; the message says why, and nothing was changed."""


def dollars(cents: int) -> float:
    """Cents as a number of dollars, as the tools show it."""
    return cents / 100


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
    check_customer(db, customer_id)
    orders: dict[str, Data] = {}
    for order_id, status, ordered_on, product in db.rows(
        "SELECT order_id, orders.status, ordered_on, product"
        " FROM orders JOIN items USING (order_id) JOIN products USING (sku)"
        " WHERE customer_id = ? ORDER BY order_id, item_id",
        customer_id,
    ):
        order = {"order_id": order_id, "status": status, "ordered_on": ordered_on, "products": []}
        orders.setdefault(order_id, order)["products"].append(product)
    return list(orders.values())


def get_order(db: Database, order_id: str) -> Data:
    """An order with its items, payment, address, and what has been refunded."""
    customer_id, status, ordered_on, delivered_on, shipping = order_row(db, order_id)
    method_id, label, amount = payment_of(db, order_id)
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


def owner_of(db: Database, order_id: str) -> str:
    """The customer whose order it is."""
    owner: str = order_row(db, order_id)[0]
    return owner


def check_customer(db: Database, customer_id: str) -> None:
    """Refuse a customer that there is not."""
    if db.row("SELECT 1 FROM customers WHERE customer_id = ?", customer_id) is None:
        raise Refused(f"there is no customer {customer_id[:40]!r}.")


def order_row(db: Database, order_id: str) -> tuple[Any, ...]:
    """Customer, status, day of the order, day of the delivery, and cost of shipping (in cents) of an order."""
    row = db.row(
        "SELECT customer_id, status, ordered_on, delivered_on, shipping FROM orders WHERE order_id = ?",
        order_id,
    )
    if row is None:
        raise Refused(f"there is no order {order_id[:40]!r}.")
    return row


def payment_of(db: Database, order_id: str) -> tuple[str, str, int]:
    """Number and name of the payment method of an order, and what was paid, in cents."""
    ((method_id, label, amount),) = db.rows(
        "SELECT method_id, label, amount FROM payments JOIN methods USING (method_id) WHERE order_id = ?",
        order_id,
    )
    return method_id, label, amount


def _address(db: Database, owner: str) -> Data:
    row = db.row("SELECT street, city, postcode FROM addresses WHERE owner = ?", owner)
    return dict(zip(("street", "city", "postcode"), row or (), strict=False))


def _method(method_id: str, kind: str, label: str, balance: int | None) -> Data:
    shown = {"method_id": method_id, "kind": kind, "label": label}
    return shown if balance is None else shown | {"balance": dollars(balance)}
