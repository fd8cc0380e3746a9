"""A clerk who talks and calls tools at random, with what is in the database and with what is nowhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from turngym.envs.builtin.retail.expert import AGAIN, IDENTIFY, QUESTIONS
from turngym.envs.builtin.retail.policy import CODES
from turngym.envs.messages import Message, ToolCall, assistant
from turngym.envs.tasks import Task

_PHRASES: Final = (
    IDENTIFY, AGAIN, "", "Hello, how can I help you?", "One moment please.", "I am sorry, I cannot do that.",
    "It is done.", *QUESTIONS.values(),
)  # fmt: skip
_TOOLS: Final = {
    "find_customer": ("email",), "list_orders": ("customer_id",), "get_order": ("order_id",),
    "find_product": ("product",), "cancel_order": ("order_id",),
    "refund_item": ("order_id", "item_id", "amount", "method_id"),
    "exchange_item": ("order_id", "item_id", "new_sku"),
    "change_order_address": ("order_id", "street", "city", "postcode"),
    "change_account_address": ("customer_id", "street", "city", "postcode"),
    "change_payment": ("order_id", "method_id"), "no_such_tool": ("order_id",),
}  # fmt: skip
_ODD: Final[tuple[Any, ...]] = (
    None, "", "nobody", "W000000", -1, 0, 1e300, 0.001, True, [], {"a": [1]}, "'; DROP TABLE orders; --",
    "x" * 300, "\ud800", "Straße 7", 10**30,
)  # fmt: skip


def random_clerk(task: Task, history: Sequence[Message], rng: np.random.Generator) -> Message:
    """Talk and call tools at random: mostly with what is in the database, sometimes with what is nowhere."""
    rows = task.metadata["rows"]
    if rng.random() < 0.4:
        order = rows["orders"][int(rng.integers(len(rows["orders"])))][0]
        consent = f"Shall I go ahead with order {order} for ${rng.integers(1, 30000) / 100:.2f}?"
        code = str(rng.choice(list(CODES)))
        phrases = (
            *_PHRASES,
            consent,
            f"Order {order} is done, ${rng.integers(1, 99)}.00 paid.",
            f"No: {code}.",
        )
        return assistant(phrases[int(rng.integers(len(phrases)))])
    calls = []
    for number in range(int(rng.choice([1, 1, 1, 2, 3]))):
        name = list(_TOOLS)[int(rng.integers(len(_TOOLS)))]
        arguments = {key: _argument(rows, key, rng) for key in _TOOLS[name]}
        text = json.dumps(arguments) if rng.random() < 0.95 else json.dumps(arguments)[:-2]
        calls.append(ToolCall.of(name, text, id=f"call_{len(history)}_{number}"))
    return assistant("Let me see." if rng.random() < 0.1 else None, *calls)


_SOURCES: Final = {
    "email": ("customers", 2), "customer_id": ("customers", 0), "order_id": ("orders", 0), "item_id": ("items", 0),
    "new_sku": ("products", 0), "method_id": ("methods", 0), "product": ("products", 1), "street": ("addresses", 1),
    "city": ("addresses", 2), "postcode": ("addresses", 3),
}  # fmt: skip


def _argument(rows: Any, key: str, rng: np.random.Generator) -> Any:
    if rng.random() < 0.1:
        return _ODD[int(rng.integers(len(_ODD)))]
    if key == "amount":
        return round(float(rng.uniform(1, 60)), 2)
    table, column = _SOURCES[key]
    return rows[table][int(rng.integers(len(rows[table])))][column]
