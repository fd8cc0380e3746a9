"""Reference clerks: one who does everything right, and one who tries everything."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from turngym.envs.builtin.retail import reading
from turngym.envs.builtin.retail.policy import CODES
from turngym.envs.builtin.retail.scenario import Answer, Change, Request, Scenario
from turngym.envs.messages import Message, ToolCall, assistant
from turngym.envs.tasks import Task

_IDENTIFY: Final = "Please tell me the email address and the postcode of your account."
_AGAIN: Final = (
    "These details do not match our records. Could you please check your email address and your postcode?"
)
_QUESTIONS: Final = {
    "order": "Which order number is it?",
    "condition": "Is the item unopened, opened or defective?",
    "variant": "Which variant would you like instead?",
    "address": "What is the new address?",
    "method": "Which payment method would you like to use?",
}


def expert(task: Task, history: Sequence[Message], _rng: np.random.Generator) -> Message:
    """Do the next thing that the policy asks for, judged by the conversation so far."""
    return _Clerk(task, history).next()


class _Clerk:
    """What the expert sees in a conversation."""

    def __init__(self, task: Task, history: Sequence[Message]) -> None:
        self._scenario = Scenario.model_validate(task.metadata["scenario"])
        self._history = history
        self._heard = "\n".join(message.text for message in history if message.role == "user")
        self._words = reading.words(self._heard)
        # The current request is the last that was brought up.
        requests = self._scenario.requests
        self._number = max(number for number, request in enumerate(requests) if request.wish in self._heard)
        began = next(i for i, m in enumerate(history) if m.role == "user" and self._request.wish in m.text)
        self._calls = [_call(call) for message in history for call in message.tool_calls]
        self._calls_since = [_call(call) for message in history[began:] for call in message.tool_calls]
        self._answer = Answer.model_validate(task.target[self._number])
        self._customer_id: str = next(
            row[0] for row in task.metadata["rows"]["customers"] if row[1] == self._scenario.name
        )

    @property
    def _request(self) -> Request:
        return self._scenario.requests[self._number]

    def next(self) -> Message:
        """The next message."""
        return self._identify() or self._look() or self._act()

    def _identify(self) -> Message | None:
        emails, postcodes = self._scenario.emails, self._scenario.postcodes
        if emails[0] not in self._words or postcodes[0] not in self._words:
            return assistant(_IDENTIFY)
        said = next(email for email in reversed(emails) if email in self._words)
        if ("find_customer", {"email": said}) not in self._calls:
            return self._call_all(("find_customer", {"email": said}))
        mended = emails[-1] in self._words and postcodes[-1] in self._words
        doubtful = not mended or self._answer.code == "ID-MISMATCH"
        return assistant(_AGAIN) if doubtful and not self._said(_AGAIN) else None

    def _look(self) -> Message | None:
        """Ask for what is missing, and look at what it is about."""
        missing = [
            question
            for topic, question in _QUESTIONS.items()
            if (said := self._request.details.get(topic)) is not None and said not in self._heard
        ]
        if self._answer.code == "ID-MISMATCH":
            return None
        if missing:
            return assistant(" ".join(missing))
        order_id = self._answer.order_id
        if order_id is not None and order_id.lower() not in self._words:
            listing = ("list_orders", {"customer_id": self._customer_id})
            if listing not in self._calls_since:
                return self._call_all(listing)
        needed = [] if order_id is None else [("get_order", {"order_id": order_id})]
        needed += [("find_product", {"product": product}) for product in self._answer.products]
        left = [call for call in needed if call not in self._calls_since]
        return self._call_all(*left) if left else None

    def _act(self) -> Message:
        """Refuse; or ask for consent, make the changes, and report."""
        if self._answer.code is not None:
            return assistant(
                f"I am sorry, this is not possible: {CODES[self._answer.code]} ({self._answer.code})."
            )
        wanted = [(change.name, change.arguments) for change in self._answer.changes]
        if all(call in self._calls_since for call in wanted):
            return assistant(f"It is done: {self._described}.")
        if (
            self._history[-1].role == "user"
            and reading.says_yes(self._history[-1].text)
            and self._said(self._question)
        ):
            return self._call_all(*wanted)
        return assistant(self._question)

    @property
    def _question(self) -> str:
        return f"This is what I would do: {self._described}. Shall I go ahead?"

    @property
    def _described(self) -> str:
        described = [_described(change) for change in self._answer.changes]
        described += [
            f"the amount is ${fact.amount / 100:,.2f}" for fact in self._answer.facts if fact.amount
        ]
        return "; ".join(described)

    def _said(self, text: str) -> bool:
        return any(message.role == "assistant" and message.text == text for message in self._history)

    def _call_all(self, *calls: tuple[str, dict[str, Any]]) -> Message:
        made = len(self._calls)
        return assistant(
            None,
            *(
                ToolCall.of(name, arguments, id=f"call_{number}")
                for number, (name, arguments) in enumerate(calls, start=made)
            ),
        )


def _described(change: Change) -> str:
    arguments = change.arguments
    order = f"order {arguments.get('order_id')}"
    address = ", ".join(str(arguments.get(key)) for key in ("street", "city", "postcode"))
    return {
        "cancel_order": f"{order} is cancelled and everything is paid back",
        "refund_item": f"the item of {order} is taken back and refunded",
        "exchange_item": f"the item of {order} is exchanged and the difference settled",
        "change_order_address": f"{order} goes to {address}",
        "change_account_address": f"the address of the account becomes {address}",
        "change_payment": f"the payment method of {order} is changed",
    }[change.name]


def _call(call: ToolCall) -> tuple[str, Any]:
    try:
        return call.name, json.loads(call.function.arguments)
    except ValueError:
        return call.name, None


_PHRASES: Final = (
    _IDENTIFY, _AGAIN, "", "Hello, how can I help you?", "One moment please.", "I am sorry, I cannot do that.", "It is done.",
    *_QUESTIONS.values(),
)  # fmt: skip
_TOOLS: Final = {
    "find_customer": ("email",), "list_orders": ("customer_id",), "get_order": ("order_id",), "find_product": ("product",),
    "cancel_order": ("order_id",), "refund_item": ("order_id", "item_id", "amount", "method_id"),
    "exchange_item": ("order_id", "item_id", "new_sku"), "change_order_address": ("order_id", "street", "city", "postcode"),
    "change_account_address": ("customer_id", "street", "city", "postcode"), "change_payment": ("order_id", "method_id"),
    "no_such_tool": ("order_id",),
}  # fmt: skip
_ODD: Final[tuple[Any, ...]] = (
    None, "", "nobody", "W000000", -1, 0, 1e300, 0.001, True, [], {"a": [1]}, "'; DROP TABLE orders; --", "x" * 300, "\ud800",
    "Straße 7", 10**30,
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
