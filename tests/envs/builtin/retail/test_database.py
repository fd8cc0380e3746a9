from __future__ import annotations

import copy
import gc
import pickle
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.envs.builtin.retail.database import TABLES, Database, canonical
from turngym.envs.builtin.retail.tasks import task_set

ROWS = task_set("single").at("test", 0).metadata["rows"]
OTHER_ROWS = task_set("single").at("test", 1).metadata["rows"]


def filled(rows=ROWS):
    database = Database()
    database.load(rows)
    return database


def test_it_holds_what_was_loaded():
    database = filled()
    for name in TABLES:
        assert sorted(database.rows(f"SELECT * FROM {name}")) == sorted(
            tuple(row) for row in ROWS.get(name, ())
        )
    assert database.row("SELECT * FROM orders WHERE order_id = 'W'") is None


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d)), lambda d: Database(d.image())]
)
def test_copies_hold_the_same_and_go_their_own_way(copied):
    database = filled()
    database.run("UPDATE products SET stock = stock + 1")
    twin = copied(database)
    assert twin.same_as(database)
    twin.run("UPDATE products SET stock = stock + 1")
    assert not twin.same_as(database)
    database.run("UPDATE products SET stock = stock + 1")
    assert twin.same_as(database)


def test_a_copy_of_a_copy_that_was_never_opened():
    assert copy.deepcopy(copy.deepcopy(filled())).same_as(filled())
    assert copy.deepcopy(Database()).same_as(Database())


def test_a_used_connection_loads_like_a_new_one():
    database = filled(OTHER_ROWS)
    database.run("DELETE FROM orders")
    database.row("SELECT * FROM items")
    database.load(ROWS)
    assert database.same_as(filled())
    before = database.image()
    database.run("DELETE FROM items")
    database.restore(before)
    assert database.same_as(filled())


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_one_changed_value_or_row_anywhere_is_a_difference(data):
    one, other = filled(), filled()
    table = data.draw(st.sampled_from([name for name in TABLES if ROWS.get(name)]))
    column = data.draw(st.sampled_from(TABLES[table]))
    key = data.draw(st.sampled_from([row[0] for row in ROWS[table]]))
    kind = data.draw(st.sampled_from(["change", "delete", "add"]))
    if kind == "change":
        other.run(f"UPDATE {table} SET {column} = ? WHERE {TABLES[table][0]} = ?", "changed", key)
    elif kind == "delete":
        other.run(f"DELETE FROM {table} WHERE {TABLES[table][0]} = ?", key)
    else:
        other.insert(table, *("new" for _ in TABLES[table]))
    assert not one.same_as(other)
    assert not other.same_as(one)


def test_neither_the_order_of_rows_nor_the_way_there_is_a_difference():
    one, other = filled(), filled()
    one.insert("refunds", "W1", None, "P1", 5)
    one.insert("refunds", "W1", "I1", "P1", 5)
    other.run("DELETE FROM products")
    for row in reversed(ROWS["products"]):
        other.insert("products", *row)
    other.insert("refunds", "W1", "I1", "P1", 5)
    other.insert("refunds", "W1", None, "P1", 5)
    assert one.image()[100:] != other.image()[100:]
    assert one.same_as(other)
    other.insert("refunds", "W1", None, "P1", 5)  # twice is not once
    assert not one.same_as(other)


def test_addresses_are_compared_as_people_would():
    one, other = filled(), filled()
    owner, street, city, postcode = ROWS["addresses"][0]
    other.run(
        "UPDATE addresses SET street = ?, city = ? WHERE owner = ?",
        f" {street.upper()},",
        city.lower(),
        owner,
    )
    assert one.same_as(other)
    other.run("UPDATE addresses SET postcode = ? WHERE owner = ?", postcode[::-1] + "1", owner)
    assert not one.same_as(other)
    assert canonical("12  Oak St., ") == canonical("12 oak st") != canonical("1 2 Oak St")


def test_it_is_closed_when_it_is_forgotten():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        database = filled()
        del database
        gc.collect()
