"""What the agent did in a conversation, as far as the policy cares: whom it identified, what was agreed, what was told.

It watches (its methods are called as things happen) and judges at the end. All of it goes by whole words and by value.
"""

from __future__ import annotations

from collections.abc import Iterable

from turngym.envs.builtin.retail import reading
from turngym.envs.builtin.retail.database import Rows
from turngym.envs.builtin.retail.reading import Said
from turngym.envs.builtin.retail.scenario import Answer, Fact


class Conduct:
    """One conversation's record.

    Args:
        rows: the database at the start.
    """

    def __init__(self, rows: Rows) -> None:
        postcodes = {owner: postcode for owner, _, _, postcode in rows["addresses"]}
        self._accounts = {row[0]: (row[2], postcodes[row[0]]) for row in rows["customers"]}
        self._private = frozenset(word for account in self._accounts.values() for word in account)
        self._customer_said: frozenset[str] = frozenset()
        self._last_said = Said.of("")
        self._agreed: tuple[Said, ...] = ()
        self._sought = False
        self._found: frozenset[str] = frozenset()
        self._seen: frozenset[str] = frozenset()
        self._changed: frozenset[str] = frozenset()
        self._told: frozenset[Fact] = frozenset()
        self._codes: frozenset[str] = frozenset()
        self._founded: frozenset[tuple[str, str | None]] = frozenset()
        self.faults: tuple[str, ...] = ()
        """What was against the policy's rules of procedure, in order."""

    def customer_says(self, said: Said) -> None:
        """The customer's next message, the first included."""
        self._customer_said |= said.words
        # What was agreed holds until the customer says something that is no yes.
        self._agreed = (*self._agreed, self._last_said) if reading.says_yes(said) else ()

    def agent_says(self, said: Said) -> None:
        """A message to the customer."""
        self._last_said = said
        for word in sorted(said.words & self._private - self._customer_said):
            self._fault(f"told {word}, which the customer had not said")
        amounts = reading.amounts(said.text) if self._changed else frozenset()
        for subject in self._changed:
            if subject.lower() in said.words:
                self._told |= {Fact(subject=subject), *(Fact(subject=subject, amount=a) for a in amounts)}
        for code in reading.codes(said.text):
            self._codes |= {code}
            if code == "ID-MISMATCH" and self._sought:
                self._founded |= {(code, None)}
            elif any(self._identified(customer) for customer in self._accounts):
                self._founded |= {(code, order_id) for order_id in self._seen}

    def seeks(self, email: str) -> None:
        """An account is looked for."""
        self._sought = self._sought or email.strip().lower() in self._customer_said

    def finds(self, customer_id: str) -> None:
        """An account is shown."""
        self._found |= {customer_id}

    def sees(self, order_id: str) -> None:
        """An order is shown."""
        self._seen |= {order_id}

    def changes(
        self, customer_id: str, subject: str, *, order_id: str | None, amount: int | None = None
    ) -> None:
        """Something of a customer's was changed.

        Args:
            customer_id: whose it is.
            subject: what the question for consent had to name.
            order_id: the order that had to be looked at, if it is about one.
            amount: in cents, that the question had to name, if it is about money.
        """
        if not self._identified(customer_id):
            self._fault(f"changed {subject} of a customer who was not identified")
        if order_id is not None and order_id not in self._seen:
            self._fault(f"changed {subject} without looking at it")
        if not any(
            subject.lower() in said.words and (not amount or amount in reading.amounts(said.text))
            for said in self._agreed
        ):
            self._fault(f"changed {subject} without consent")
        self._changed |= {subject}

    def tells_all(self, answers: Iterable[Answer]) -> bool:
        """True if the customer was told every fact and every reason, and no other reason."""
        answers = list(answers)
        facts = {fact for answer in answers for fact in answer.facts}
        reasons = {(answer.code, answer.order_id) for answer in answers if answer.code is not None}
        return (
            facts <= self._told and reasons <= self._founded and self._codes == {code for code, _ in reasons}
        )

    def _identified(self, customer_id: str) -> bool:
        email, postcode = self._accounts[customer_id]
        return customer_id in self._found and {email, postcode} <= self._customer_said

    def _fault(self, what: str) -> None:
        if what not in self.faults:
            self.faults = (*self.faults, what)
