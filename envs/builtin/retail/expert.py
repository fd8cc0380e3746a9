"""The reference clerk: does the next thing that the policy asks for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from turngym.envs.builtin.retail.policy import CODES
from turngym.envs.builtin.retail.reading import Said, says_yes
from turngym.envs.builtin.retail.scenario import Answer, Change, Request, Scenario
from turngym.envs.messages import Message, ToolCall, assistant
from turngym.envs.tasks import Task

IDENTIFY: Final = "Please tell me the email address and the postcode of your account."
AGAIN: Final = (
    "These details do not match our records. Could you please check your email address and your postcode?"
)
QUESTIONS: Final = {
    "order": "Which order number is it?",
    "condition": "Is the item unopened, opened or defective?",
    "variant": "Which variant would you like instead?",
    "address": "What is the new address?",
    "method": "Which payment method would you like to use?",
}


def expert(task: Task, history: Sequence[Message], _rng: np.random.Generator) -> Message:
    """Do the next thing that the policy asks for, judged by the conversation so far."""
    return _Clerk(task, history).next()


Call = tuple[str, dict[str, Any]]


class _Clerk:
    """What the expert sees in a conversation."""

    def __init__(self, task: Task, history: Sequence[Message]) -> None:
        self._scenario = Scenario.model_validate(task.metadata["scenario"])
        self._history = history
        self._heard = "\n".join(message.text for message in history if message.role == "user")
        self._words = Said.of(self._heard).words
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
        return self._ask() or self._look() or self._act()

    def _ask(self) -> Message | None:
        """Ask who it is, and for what is missing."""
        emails, postcodes = self._scenario.emails, self._scenario.postcodes
        questions = [] if {emails[0], postcodes[0]} <= self._words else [IDENTIFY]
        questions += [
            question
            for topic, question in QUESTIONS.items()
            if (said := self._request.details.get(topic)) is not None and said not in self._heard
        ]
        return assistant(" ".join(questions)) if questions else None

    def _look(self) -> Message | None:
        """Look up the account, the order and what else it is about; ask again if the account does not match."""
        emails, postcodes = self._scenario.emails, self._scenario.postcodes
        said = next(email for email in reversed(emails) if email in self._words)
        needed: list[Call] = [("find_customer", {"email": said})]
        order_id = self._answer.order_id
        has_number = order_id is not None and order_id.lower() in self._words
        listing: Call = ("list_orders", {"customer_id": self._customer_id})
        if order_id is not None and (has_number or listing in self._calls):
            needed.append(("get_order", {"order_id": order_id}))
        needed += [("find_product", {"product": product}) for product in self._answer.products]
        if left := [call for call in needed if call not in self._calls]:
            return self._call_all(*left)
        mended = emails[-1] in self._words and postcodes[-1] in self._words
        if (not mended or self._answer.code == "ID-MISMATCH") and not self._said(AGAIN):
            return assistant(AGAIN)
        if order_id is not None and not has_number and listing not in self._calls:
            return self._call_all(listing)
        return None

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
            and says_yes(Said.of(self._history[-1].text))
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

    def _call_all(self, *calls: Call) -> Message:
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
