from __future__ import annotations

import pytest

from turngym.envs.builtin.retail import changes
from turngym.envs.builtin.retail.database import Database
from turngym.envs.builtin.retail.lookups import Refused, find_customer, find_product, get_order, list_orders

ROWS = {
    "customers": [["C1", "Ada Berg", "ada@example.com", "gold"], ["C2", "Bo Berg", "bo@example.com", "standard"]],
    "addresses": [
        ["C1", "1 Oak Street", "Ashford", "11111"], ["C2", "2 Oak Street", "Ashford", "22222"],
        ["W1", "1 Oak Street", "Ashford", "11111"], ["W2", "1 Oak Street", "Ashford", "11111"],
        ["W3", "1 Oak Street", "Ashford", "11111"],
    ],
    "methods": [
        ["P1", "C1", "card", "Visa ending in 1", None], ["P2", "C1", "store credit", "store credit", 5000],
        ["P3", "C2", "card", "Visa ending in 3", None],
    ],
    "products": [
        ["S1", "teapot", "blue", "home", 2000, 3, 0], ["S2", "teapot", "red", "home", 2600, 1, 0],
        ["S3", "teapot", "green", "home", 1400, 0, 0], ["S4", "tent", "red", "sports", 9000, 2, 0],
    ],
    "orders": [
        ["W1", "C1", "pending", "2025-01-01", None, 480], ["W2", "C1", "delivered", "2025-01-01", "2025-01-05", 0],
        ["W3", "C1", "shipped", "2025-01-01", None, 0],
    ],
    "items": [
        ["I1", "W1", "S1", 2000, 0, "bought"], ["I2", "W2", "S1", 1900, 1, "bought"],
        ["I3", "W3", "S1", 2000, 0, "bought"], ["I4", "W2", "S4", 9000, 0, "refunded"],
    ],
    "payments": [["W1", "P2", 2480], ["W2", "P2", 10900], ["W3", "P1", 2000]],
    "refunds": [["W2", "I4", "P1", 9000]],
}  # fmt: skip


@pytest.fixture
def db() -> Database:
    database = Database()
    database.load(ROWS)
    return database


def differences(db: Database) -> dict[str, list[tuple]]:
    """Rows that are there now and were not before, by table."""
    before = Database()
    before.load(ROWS)
    tables = (
        "orders",
        "items",
        "products",
        "methods",
        "payments",
        "refunds",
        "exchanges",
        "cancellations",
        "addresses",
    )
    found = {}
    for table in tables:
        old, new = (set(each.rows(f"SELECT * FROM {table}")) for each in (before, db))
        if new - old:
            found[table] = sorted(new - old, key=repr)
    return found


def test_look_ups(db):
    assert find_customer(db, " ADA@example.com ") == {
        "customer_id": "C1", "name": "Ada Berg", "email": "ada@example.com", "tier": "gold",
        "address": {"street": "1 Oak Street", "city": "Ashford", "postcode": "11111"},
        "payment_methods": [
            {"method_id": "P1", "kind": "card", "label": "Visa ending in 1"},
            {"method_id": "P2", "kind": "store credit", "label": "store credit", "balance": 50.0},
        ],
    }  # fmt: skip
    assert [order["order_id"] for order in list_orders(db, "C1")] == ["W1", "W2", "W3"]
    assert list_orders(db, "C1")[1]["products"] == ["teapot", "tent"]
    assert list_orders(db, "C2") == []
    order = get_order(db, "W2")
    assert (order["paid"], order["shipping"], order["delivered_on"]) == (109.0, 0.0, "2025-01-05")
    assert order["items"][0] == {
        "item_id": "I2", "sku": "S1", "product": "teapot", "variant": "blue", "category": "home", "price": 19.0,
        "final_sale": True, "made_to_order": False, "status": "bought",
    }  # fmt: skip
    assert [variant["sku"] for variant in find_product(db, "Teapot")] == ["S1", "S2", "S3"]


def test_cancelling_pays_all_back_and_restocks(db):
    assert changes.cancel_order(db, "W1", "2025-02-01") == 2480
    assert differences(db) == {
        "orders": [("W1", "C1", "cancelled", "2025-01-01", None, 480)],
        "items": [("I1", "W1", "S1", 2000, 0, "cancelled")],
        "products": [("S1", "teapot", "blue", "home", 2000, 4, 0)],
        "methods": [("P2", "C1", "store credit", "store credit", 7480)],
        "refunds": [("W1", None, "P2", 2480)],
        "cancellations": [("W1", "2025-02-01")],
    }


def test_refunding(db):
    changes.refund_item(db, "W2", "I2", 1900, "P1")
    assert differences(db) == {
        "items": [("I2", "W2", "S1", 1900, 1, "refunded")],
        "refunds": [("W2", "I2", "P1", 1900)],
    }


def test_exchanging_settles_the_difference(db):
    assert changes.exchange_item(db, "W2", "I2", "S2") == 700
    assert differences(db) == {
        "items": [("I2", "W2", "S2", 2600, 1, "exchanged")],
        "products": [("S2", "teapot", "red", "home", 2600, 0, 0)],
        "methods": [("P2", "C1", "store credit", "store credit", 4300)],
        "exchanges": [("W2", "I2", "S1", "S2", 700)],
    }


def test_moving_and_paying_otherwise(db):
    changes.change_order_address(db, "W1", "9 Elm", "Town", "99999")
    changes.change_account_address(db, "C2", "8 Elm", "Town", "88888")
    changes.change_payment(db, "W1", "P1")
    assert differences(db) == {
        "addresses": [("C2", "8 Elm", "Town", "88888"), ("W1", "9 Elm", "Town", "99999")],
        "methods": [("P2", "C1", "store credit", "store credit", 7480)],
        "payments": [("W1", "P1", 2480)],
    }


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("cancel_order", {"order_id": "W2"}, "is delivered, not pending"),
        ("cancel_order", {"order_id": "W9"}, "there is no order 'W9'"),
        ("refund_item", {"order_id": "W3", "item_id": "I3", "amount": 5, "method_id": "P1"}, "is shipped"),
        (
            "refund_item",
            {"order_id": "W2", "item_id": "I4", "amount": 5, "method_id": "P1"},
            "refunded already",
        ),
        (
            "refund_item",
            {"order_id": "W2", "item_id": "I1", "amount": 5, "method_id": "P1"},
            "has no item 'I1'",
        ),
        (
            "refund_item",
            {"order_id": "W2", "item_id": "I2", "amount": 19.01, "method_id": "P1"},
            "at most the price",
        ),
        ("refund_item", {"order_id": "W2", "item_id": "I2", "amount": 0, "method_id": "P1"}, "more than 0"),
        (
            "refund_item",
            {"order_id": "W2", "item_id": "I2", "amount": 1.005, "method_id": "P1"},
            "two decimals",
        ),
        (
            "refund_item",
            {"order_id": "W2", "item_id": "I2", "amount": 5, "method_id": "P3"},
            "no payment method 'P3'",
        ),
        ("exchange_item", {"order_id": "W2", "item_id": "I2", "new_sku": "S3"}, "out of stock"),
        ("exchange_item", {"order_id": "W2", "item_id": "I2", "new_sku": "S1"}, "the customer has"),
        ("exchange_item", {"order_id": "W2", "item_id": "I2", "new_sku": "S9"}, "no article 'S9'"),
        ("exchange_item", {"order_id": "W2", "item_id": "I2", "new_sku": "S4"}, "does not cover 71.00"),
        (
            "change_order_address",
            {"order_id": "W3", "street": "x", "city": "x", "postcode": "x"},
            "is shipped",
        ),
        (
            "change_account_address",
            {"customer_id": "C9", "street": "x", "city": "x", "postcode": "x"},
            "no customer",
        ),
        ("change_payment", {"order_id": "W1", "method_id": "P2"}, "with this method already"),
        ("change_payment", {"order_id": "W1", "method_id": "P3"}, "no payment method 'P3'"),
        ("change_payment", {"order_id": "W2", "method_id": "P1"}, "is delivered"),
    ],
)
def test_what_the_till_refuses_changes_nothing(db, name, arguments, reason):
    with pytest.raises(Refused, match=reason):
        changes.apply(db, name, arguments, "2025-02-01")
    assert differences(db) == {}


def test_store_credit_must_cover_an_order(db):
    changes.change_payment(db, "W1", "P1")
    db.run("UPDATE methods SET balance = 2479 WHERE method_id = 'P2'")
    with pytest.raises(Refused, match=r"does not cover 24\.80"):
        changes.change_payment(db, "W1", "P2")
    db.run("UPDATE methods SET balance = 2480 WHERE method_id = 'P2'")
    changes.change_payment(db, "W1", "P2")


def test_dollars_become_cents_exactly():
    assert [changes.cents(amount) for amount in (0.29, 1.1, 19.99, 1234.56, 3)] == [
        29,
        110,
        1999,
        123456,
        300,
    ]
    for amount in (0.001, 1.005, 2.999):
        with pytest.raises(Refused):
            changes.cents(amount)
    assert all(changes.cents(whole / 100) == whole for whole in range(0, 100_000, 7))
