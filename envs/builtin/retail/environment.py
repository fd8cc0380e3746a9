"""Retail: serve a customer at a shop's service desk, with tools over a database and a policy to follow."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from turngym.envs.builtin.retail import changes, lookups, policy
from turngym.envs.builtin.retail.conduct import Conduct
from turngym.envs.builtin.retail.customer import ScriptedCustomer, played_reply
from turngym.envs.builtin.retail.database import Database
from turngym.envs.builtin.retail.expert import expert
from turngym.envs.builtin.retail.random_clerk import random_clerk
from turngym.envs.builtin.retail.reading import Said
from turngym.envs.builtin.retail.scenario import Answer, Scenario
from turngym.envs.builtin.retail.tasks import DIFFICULTIES, Difficulty, task_set
from turngym.envs.completer import Completer
from turngym.envs.env import Observation, ResetResult
from turngym.envs.messages import Message, system, user
from turngym.envs.rewards import reward
from turngym.envs.tasks import Task, TaskSet
from turngym.envs.tool_env import ToolEnv
from turngym.envs.tools import tool

Text = Annotated[str, Field(max_length=200)]
Line = Annotated[str, Field(min_length=1, max_length=200)]


class Retail(ToolEnv):
    """Serve a customer of a shop: identify them, ask for consent, change what the policy allows, refuse the rest.

    A message without tool calls goes to the customer, who replies; one with calls is answered by the tools, and text
    beside them is heard by nobody. The episode terminates when the customer has nothing more to ask or gives up, and
    with the fortieth message.

    The reward is 1, at the end, if three things hold, and 0 otherwise: the database is what the right changes make it
    (all of it, by value); the customer was told every required fact after it became true, and every reason for a
    refusal and no other; and the policy's rules of procedure were kept (identify before telling or changing, look, ask
    for consent, tell no private data). Each is a metric of its own: `state`, `told`, `procedure`.

    Args:
        difficulty: "single" (one request that is granted), "forbidden" (one that must be refused), "several" (two or
            three), "change" (the customer changes their mind), "identity" (what they say does not match the account, at
            first or at all), or "mixed" (each in a fifth of the tasks).
        completer: a model that plays the customer; default: a script that always gives the same replies. With a model,
            the same seed and actions need not give the same episode.
        tasks: others than the generated ones, of the same form.
        split: "train" (endless) or "test" (10,000 tasks).
        kwargs: whatever else `ToolEnv` takes.

    Raises:
        ValueError: an unknown difficulty.
    """

    shared: ClassVar[tuple[str, ...]] = ("completer",)
    system_prompt = policy.TEXT
    max_turns = 40
    # What is said to a customer counts wherever it stands in a message: people speak in sentences. (As the expert
    # says it; the first of several, or the last.)
    answer_formats = tuple(
        rf"{before}(?P<answer>(?:It is done|I am sorry, this is not possible): .*?\.)(?![0-9]).*"
        for before in (".*?", ".*")
    )
    policies: ClassVar = {"expert": expert, "random": random_clerk}

    def __init__(
        self,
        *,
        difficulty: Difficulty | Literal["mixed"] = "mixed",
        completer: Completer | None = None,
        tasks: TaskSet | None = None,
        split: str | None = None,
        **kwargs: Any,
    ) -> None:
        if difficulty not in ("mixed", *DIFFICULTIES):
            raise ValueError(f"expected mixed, {', '.join(DIFFICULTIES)} as difficulty, got {difficulty!r}")
        self.database = Database()
        """The shop's database, which the tools change."""
        self._right = Database()
        self.completer = completer
        self.hear_waits = completer is not None
        super().__init__(tasks=task_set(difficulty) if tasks is None else tasks, split=split, **kwargs)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> ResetResult:
        """The policy with the day's date, and the customer's first words."""
        task = self.task
        self.database.load(task.metadata["rows"])
        self._before = self.database.image()
        self.conduct = Conduct(task.metadata["rows"])
        """What the agent has done so far, as far as the policy cares."""
        self._scenario = Scenario.model_validate(task.metadata["scenario"])
        self._customer = ScriptedCustomer(self._scenario)
        self._same: bool | None = None
        (policy_text, *words), info = super().reset(seed=seed, options=options)
        self.conduct.customer_says(Said.of(words[-1].text))
        return (system(f"{policy_text.text}\nToday is {task.metadata['today']}."), *words), info

    async def hear(self, action: Message) -> tuple[Observation, bool]:
        """The customer's reply, and whether it is the last."""
        said = Said.of(action.text)
        self.conduct.agent_says(said)
        if self.completer is None:
            text, over = self._customer.reply(said)
        else:
            text, over = await played_reply(self.completer, self._scenario, self.history)
        self.conduct.customer_says(Said.of(text))
        return (user(text),), over

    @tool
    def find_customer(self, email: Text) -> lookups.Data:
        """Find the account of an email address.

        Args:
            email: as the customer says it.
        """
        self.conduct.seeks(email)
        found = lookups.find_customer(self.database, email)
        self.conduct.finds(found["customer_id"])
        return found

    @tool
    def list_orders(self, customer_id: Text) -> list[lookups.Data]:
        """List the orders of a customer with their products."""
        return lookups.list_orders(self.database, customer_id)

    @tool
    def get_order(self, order_id: Text) -> lookups.Data:
        """Show an order with its items, dates, address and payment."""
        found = lookups.get_order(self.database, order_id)
        self.conduct.sees(order_id)
        return found

    @tool
    def find_product(self, product: Text) -> list[lookups.Data]:
        """List the variants of a product with prices and stock.

        Args:
            product: its name, such as "desk lamp".
        """
        return lookups.find_product(self.database, product)

    @tool
    def cancel_order(self, order_id: Text) -> str:
        """Cancel a pending order and pay everything back."""
        amount = changes.cancel_order(self.database, order_id, self.task.metadata["today"])
        self._changed(order_id, amount)
        return f"Order {order_id} is cancelled; ${amount / 100:.2f} paid back."

    @tool
    def refund_item(
        self,
        order_id: Text,
        item_id: Text,
        amount: Annotated[float, Field(ge=-1e6, le=1e6)],
        method_id: Text,
    ) -> str:
        """Take back an item of a delivered order and pay money for it.

        Args:
            order_id: the order.
            item_id: the item.
            amount: to pay, in dollars.
            method_id: the payment method that the money goes to.
        """
        in_cents = changes.cents(amount)
        changes.refund_item(self.database, order_id, item_id, in_cents, method_id)
        self._changed(order_id, in_cents)
        return f"Item {item_id} is taken back; ${in_cents / 100:.2f} paid to {method_id}."

    @tool
    def exchange_item(self, order_id: Text, item_id: Text, new_sku: Text) -> str:
        """Exchange an item of a delivered order for another article, and settle the difference of the prices.

        Args:
            order_id: the order.
            item_id: the item.
            new_sku: the article that the customer gets.
        """
        difference = changes.exchange_item(self.database, order_id, item_id, new_sku)
        self._changed(order_id, abs(difference))
        who = "The customer paid" if difference > 0 else "The customer got back"
        return f"Item {item_id} is exchanged for {new_sku}. {who} ${abs(difference) / 100:.2f}."

    @tool
    def change_order_address(self, order_id: Text, street: Line, city: Line, postcode: Line) -> str:
        """Send a pending order to another address."""
        changes.change_order_address(self.database, order_id, street, city, postcode)
        self._changed(order_id)
        return f"Order {order_id} goes to the new address."

    @tool
    def change_account_address(self, customer_id: Text, street: Line, city: Line, postcode: Line) -> str:
        """Change the address of a customer's account. Orders keep theirs."""
        changes.change_account_address(self.database, customer_id, street, city, postcode)
        self.conduct.changes(customer_id, postcode.strip(), order_id=None)
        return f"Account {customer_id} has the new address."

    @tool
    def change_payment(self, order_id: Text, method_id: Text) -> str:
        """Pay a pending order with another payment method of the customer's."""
        changes.change_payment(self.database, order_id, method_id)
        self._changed(order_id)
        return f"Order {order_id} is paid with {method_id}."

    @reward
    def correct(self, task: Task) -> float:
        """1 if the state is right, everything was told, and procedure was kept."""
        return float(self._is_same(task) and self._is_told(task) and not self.conduct.faults)

    @reward(weight=0, name="state")
    def same_state(self, task: Task) -> float:
        """1 if the database is what the right changes make it."""
        return float(self._is_same(task))

    @reward(weight=0, name="told")
    def told(self, task: Task) -> float:
        """1 if the customer was told what they must be told."""
        return float(self._is_told(task))

    @reward(weight=0, name="procedure")
    def procedure(self) -> float:
        """1 if the policy's rules of procedure were kept."""
        return float(not self.conduct.faults)

    def _changed(self, order_id: str, amount: int | None = None) -> None:
        owner = lookups.owner_of(self.database, order_id)
        self.conduct.changes(owner, order_id, order_id=order_id, amount=amount)

    def _is_told(self, task: Task) -> bool:
        return self.conduct.tells_all(self._answers(task))

    def _is_same(self, task: Task) -> bool:
        if self._same is None:  # nothing changes any more once the rewards are due
            self._right.restore(self._before)
            for answer in self._answers(task):
                for change in answer.changes:
                    changes.apply(self._right, change.name, change.arguments, task.metadata["today"])
            self._same = self.database.same_as(self._right)
        return self._same

    def _answers(self, task: Task) -> list[Answer]:
        """What was right, without what the customer abandoned."""
        return [
            Answer.model_validate(answer)
            for answer, request in zip(task.target, self._scenario.requests, strict=True)
            if not request.abandoned
        ]
