"""Labels are compared with a second reading of the policy, written against the raw rows and the customer's words."""

import datetime
import re

import numpy as np
import pytest

from turngym.envs.builtin.retail.requests import GRANTED, OUTCOMES, case_of, request_of
from turngym.envs.builtin.retail.tasks import DIFFICULTIES, random_task, task_set
from turngym.envs.builtin.retail.world import Dice, World
from turngym.envs.tasks import iterate


def oracle(task):
    """(code, changes, facts) for each request."""
    tables = task.metadata["rows"]
    scenario = task.metadata["scenario"]
    email, postcode = scenario["emails"][-1], scenario["postcodes"][-1]
    account = next((c for c in tables["customers"] if c[2] == email), None)
    at_home = {a[0]: a for a in tables["addresses"]}
    if account is None or at_home[account[0]][3] != postcode:
        return [("ID-MISMATCH", [], [])] * len(scenario["requests"])
    return [one(task, account, request, tables) for request in scenario["requests"]]


def one(task, account, request, tables):
    today = datetime.date.fromisoformat(task.metadata["today"])
    text = " ".join((request["wish"], *request.get("details", {}).values()))
    names = {sku: name for sku, name, *_ in tables["products"]}
    address = re.search(r"new address is ([^,]+), ([^,]+), (\d{5})\.", text)
    if "address of my account" in text or "account has an old address" in text:
        street, city, code = address.groups()
        move = (
            "change_account_address",
            {"customer_id": account[0], "street": street, "city": city, "postcode": code},
        )
        return None, [move], [(code, None)]
    number = re.search(r"W\d{6}", text)
    own_orders = {o[0] for o in tables["orders"] if o[1] == account[0]}
    if number:
        order_id = number[0]
    else:
        about = text.split(" I would like the ")[0]
        found = {i[1] for i in tables["items"] if i[1] in own_orders and names[i[2]] in about}
        assert len(found) == 1, text
        (order_id,) = found
    _, owner, status, ordered_on, delivered_on, shipping = next(
        o for o in tables["orders"] if o[0] == order_id
    )
    if owner != account[0]:
        return "NOT-YOURS", [], []
    items = [i for i in tables["items"] if i[1] == order_id]
    method_id = next(p[1] for p in tables["payments"] if p[0] == order_id)
    total = shipping + sum(i[3] for i in items)
    mine = [m for m in tables["methods"] if m[1] == account[0]]
    if "cancel" in text.lower():
        made = any(p[6] for p in tables["products"] for i in items if i[2] == p[0])
        if status != "pending":
            return "ALREADY-SHIPPED", [], []
        if made and (today - datetime.date.fromisoformat(ordered_on)).days > 2:
            return "MADE-TO-ORDER", [], []
        return None, [("cancel_order", {"order_id": order_id})], [(order_id, total)]
    if address:
        if status != "pending":
            return "ALREADY-SHIPPED", [], []
        street, city, code = address.groups()
        where = {"street": street, "city": city, "postcode": code}
        changes = [("change_order_address", {"order_id": order_id} | where)]
        facts = [(order_id, None)]
        if "in my account too" in text:
            changes.append(("change_account_address", {"customer_id": account[0]} | where))
            facts.append((code, None))
        return None, changes, facts
    if used := re.search(r"Please use my (.+) instead\.", text):
        new = next(m for m in mine if m[3] == used[1])
        if status != "pending":
            return "ALREADY-SHIPPED", [], []
        if new[4] is not None and new[4] < total:
            return "LOW-BALANCE", [], []
        return None, [("change_payment", {"order_id": order_id, "method_id": new[0]})], [(order_id, None)]
    return take_back(text, tables, names, today, account, order_id, items, delivered_on, method_id, mine)


def take_back(text, tables, names, today, account, order_id, items, delivered_on, method_id, mine):
    defective = "defective" in text
    opened = not defective and re.search(r"\b(opened it, but|It is opened|Opened and)", text) is not None
    assert defective or opened or re.search(r"unopened|sealed|Never opened", text), text
    (item,) = [i for i in items if names[i[2]] in text.split(" I would like the ")[0]]
    item_id, _, sku, price, final_sale, item_status = item
    reasons = []
    if delivered_on is None:
        return "NOT-DELIVERED", [], []
    days = (today - datetime.date.fromisoformat(delivered_on)).days
    if item_status == "refunded":
        reasons.append("ALREADY-REFUNDED")
    if final_sale and not defective:
        reasons.append("FINAL-SALE")
    if days > (365 if defective else 45 if account[3] == "gold" else 30):
        reasons.append("TOO-LATE")
    wanted = re.search(r"I would like (?:the (\w+) one|the ([a-z -]+) \((\w+)\)) instead", text)
    if wanted:
        product = wanted[2] or names[sku]
        new = next(p for p in tables["products"] if p[1] == product and p[2] == (wanted[1] or wanted[3]))
        if product != names[sku]:
            reasons.append("OTHER-PRODUCT")
        if new[5] < 1:
            reasons.append("OUT-OF-STOCK")
        change = ("exchange_item", {"order_id": order_id, "item_id": item_id, "new_sku": new[0]})
        fact = (order_id, abs(new[4] - price) or None)
    else:
        category = next(p[3] for p in tables["products"] if p[0] == sku)
        amount = round(price * 0.85) if opened and category == "electronics" else price
        target = method_id
        if "to my store credit" in text:
            target = next(m[0] for m in mine if m[2] == "store credit")
        if only := re.search(r"money on my (.+), and nowhere else", text):
            target = next(m[0] for m in mine if m[3] == only[1])
            reasons.append("OTHER-METHOD")
        arguments = {"order_id": order_id, "item_id": item_id, "amount": amount / 100, "method_id": target}
        change, fact = ("refund_item", arguments), (order_id, amount)
    assert len(reasons) <= 1, (reasons, text)
    return (reasons[0], [], []) if reasons else (None, [change], [fact])


def labels(task):
    return [
        (
            answer.get("code"),
            [(change["name"], change["arguments"]) for change in answer.get("changes", ())],
            [(fact["subject"], fact.get("amount")) for fact in answer.get("facts", ())],
        )
        for answer in task.target
    ]


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_the_labels_are_what_a_second_reading_of_the_policy_says(difficulty):
    for task in iterate(task_set(difficulty), "test", 250):
        assert labels(task) == oracle(task), task.id


def test_every_reason_occurs_and_so_does_every_change():
    tasks = list(iterate(task_set("mixed"), "test", 1500))
    codes = {answer.get("code") for task in tasks for answer in task.target}
    assert codes == {None, "ID-MISMATCH", *(code for found in OUTCOMES.values() for code in found)}
    changes = {
        change["name"] for task in tasks for answer in task.target for change in answer.get("changes", ())
    }
    assert changes == {
        "cancel_order", "refund_item", "exchange_item", "change_order_address", "change_account_address",
        "change_payment",
    }  # fmt: skip
    assert {task.tags[0] for task in tasks} == set(DIFFICULTIES)


@pytest.mark.slow
def test_ten_thousand_tasks_are_ten_thousand_different_ones():
    rng = np.random.default_rng(0)
    assert len({random_task(rng, DIFFICULTIES).content_hash for _ in range(10_000)}) == 10_000


def test_splits():
    tasks = task_set("mixed")
    assert (tasks.splits, tasks.size("train"), tasks.size("test")) == (("train", "test"), None, 10_000)
    train, test = ({task.content_hash for task in iterate(tasks, split, 300)} for split in tasks.splits)
    assert not train & test
    assert task_set("mixed").at("test", 9_999) == tasks.get("test-9999")


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_what_a_difficulty_means(difficulty):
    for task in iterate(task_set(difficulty), "train", 60):
        requests = task.metadata["scenario"]["requests"]
        refused = ["code" in answer for answer in task.target]
        assert [bool(request.get("abandoned")) for request in requests] == [
            difficulty == "change" and number == 0 for number in range(len(requests))
        ]
        if difficulty == "single":
            assert refused == [False]
        if difficulty == "forbidden":
            assert refused == [True]
        if difficulty == "several":
            assert 2 <= len(requests) <= 3
        if difficulty == "change":
            assert refused[:2] == [False, False]
        if difficulty == "identity":
            account = next(
                c for c in task.metadata["rows"]["customers"] if c[1] == task.metadata["scenario"]["name"]
            )
            first = task.metadata["scenario"]["emails"][0], task.metadata["scenario"]["postcodes"][0]
            postcode = next(a[3] for a in task.metadata["rows"]["addresses"] if a[0] == account[0])
            assert first != (account[2], postcode)


def test_wishes_are_told_apart_and_numbers_are_unique():
    for task in (*iterate(task_set("several"), "test", 600), *iterate(task_set("change"), "test", 200)):
        wishes = [request["wish"] for request in task.metadata["scenario"]["requests"]]
        assert len(set(wishes)) == len(wishes)
        assert not any(one in other for one in wishes for other in wishes if one is not other)
        rows = task.metadata["rows"]
        for table in ("customers", "methods", "products", "orders", "items"):
            keys = [row[0] for row in rows[table]]
            assert len(set(keys)) == len(keys)
        assert len({a[3] for a in rows["addresses"] if a[0].startswith("C")}) == 3


def test_nobody_moves_twice_in_a_conversation():
    for seed in range(60):
        world = World(Dice(np.random.default_rng(seed)))
        answers = [
            request_of(world, "address", GRANTED, case_of(world, "address", GRANTED))[1] for _ in range(3)
        ]
        moves = [change.name for answer in answers for change in answer.changes]
        assert moves.count("change_account_address") <= 1
        assert moves.count("change_order_address") >= 2


def test_fees_never_split_a_cent_and_there_is_always_something_to_pay_back():
    for task in iterate(task_set("mixed"), "test", 300):
        assert all(item[3] * 15 % 100 == 0 and item[3] >= 600 for item in task.metadata["rows"]["items"])
