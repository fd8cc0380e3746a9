"""What a task holds as data: who calls and what they say when asked, and (hidden) what would be right to do."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Request(_Record):
    """One thing that the customer wants, with what they say about it."""

    wish: str
    """Said when they bring it up."""
    subject: str
    """What a question for consent must name: the order number, or the new postcode of an account."""
    details: dict[str, str] = {}
    """What they say when asked about a topic (`customer.TOPICS`), in the order in which they volunteer it."""
    abandoned: bool = False
    """True if they change their mind when asked for consent, and bring up the next request instead."""
    plea: str | None = None
    """What they answer to a refusal before they accept it."""


class Scenario(_Record):
    """The customer's side of a conversation."""

    name: str
    """Name that they give."""
    emails: tuple[str, ...]
    """Email address that they give when asked, and when asked again; the last is repeated."""
    postcodes: tuple[str, ...]
    """The same for the postcode."""
    requests: tuple[Request, ...]
    """What they want, one after the other."""


class Fact(_Record):
    """What the customer must be told after a change."""

    subject: str
    """The word that names it: an order number or a postcode."""
    amount: int | None = None
    """The amount of money in cents, if there is one."""


class Change(_Record):
    """A call of a tool that changes something."""

    name: str
    """Name of the tool."""
    arguments: dict[str, Any]
    """Its arguments, as the agent would write them."""


class Answer(_Record):
    """What is right to do about a request. For one that is abandoned: what would have been, before it was."""

    order_id: str | None = None
    """The order that must be looked at."""
    products: tuple[str, ...] = ()
    """The products that must be looked up."""
    changes: tuple[Change, ...] = ()
    """The changes to make."""
    facts: tuple[Fact, ...] = ()
    """What to tell after them."""
    code: str | None = None
    """The reason to refuse for, if it must be refused."""
