"""The shop's policy, twice: as the text that the agent reads, and as the rules that label the tasks.

The numbers are shared, so the two cannot drift apart. The tools enforce only what a till would refuse (no such order,
already shipped, out of stock, more than was paid); everything else is the agent's to know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final, Literal

Tier = Literal["standard", "gold"]
Condition = Literal["unopened", "opened", "defective"]
Status = Literal["pending", "shipped", "delivered", "cancelled"]

RETURN_DAYS: Final[Mapping[str, int]] = {"standard": 30, "gold": 45}
"""Days after delivery until which an item may come back, by tier."""
DEFECT_DAYS: Final = 365
"""The same for a defective item, whatever the tier."""
FEE_PERCENT: Final = 15
"""Kept of the price of opened electronics."""
FEE_CATEGORY: Final = "electronics"
"""The category that the fee is for."""
MADE_TO_ORDER_DAYS: Final = 2
"""Days after ordering until which an order with a made-to-order item may be cancelled."""
MOST_AMOUNTS: Final = 4
"""Different amounts that one message may state."""

CODES: Final[Mapping[str, str]] = {
    "ID-MISMATCH": "what the customer says does not match the account",
    "NOT-YOURS": "the order belongs to another customer",
    "ALREADY-SHIPPED": "the order has left the warehouse",
    "MADE-TO-ORDER": "a made-to-order item is in production",
    "NOT-DELIVERED": "the item has not been delivered yet",
    "ALREADY-REFUNDED": "the item was refunded before",
    "FINAL-SALE": "the item was sold as final sale",
    "TOO-LATE": "the time for a return has passed",
    "OTHER-METHOD": "the customer insists on a refund to another payment method",
    "OTHER-PRODUCT": "an exchange for a different product",
    "OUT-OF-STOCK": "the wanted variant is out of stock",
    "LOW-BALANCE": "the store credit does not cover the order",
}
"""Reason codes of refusals, with what they mean."""

TEXT: Final = f"""\
You work at the service desk of a shop. You talk with one customer, and you work with tools. A message \
either calls tools or speaks to the customer: text beside tool calls is not heard by anybody. Deal with \
one request at a time, and follow this policy exactly.

# Identity
- First ask for the account's email address and postcode, look the account up, and compare. Do this \
before you say anything about an order and before you change anything.
- If they do not match (or there is no such account), ask once more. If they still do not match, refuse \
with ID-MISMATCH. Never tell an email address or a postcode that the customer has not told you.
- An order of another customer is refused with NOT-YOURS, whatever the reason for asking.

# Every change
- Look at the order first.
- Then say in one message what you are going to do, with the order number and the amount that the \
customer gets back or pays, if there is one (for the address of an account: the new postcode), and ask \
for a yes. Change nothing without it.
- Afterwards tell the customer what was done, again with the order number and the amount.
- Write amounts like $12.30, and at most {MOST_AMOUNTS} different ones in one message. Do nothing that \
the customer did not ask for.

# Cancelling
- Only a pending order can be cancelled, and only as a whole. All that was paid goes back (goods and \
shipping). Otherwise: ALREADY-SHIPPED.
- An order with a made-to-order item can be cancelled until {MADE_TO_ORDER_DAYS} days after the day of \
ordering. Later: MADE-TO-ORDER.

# Returning and exchanging an item
- Ask whether it is unopened, opened or defective, and take the customer's word for it.
- It must have been delivered (else NOT-DELIVERED) and not been refunded before (else ALREADY-REFUNDED).
- Items of a final sale are not taken back (FINAL-SALE), unless they are defective.
- It is possible until {RETURN_DAYS["standard"]} days after the day of delivery, for gold customers \
{RETURN_DAYS["gold"]}, for defective items {DEFECT_DAYS} for everybody. Later: TOO-LATE.
- The refund is the item's price without shipping. For opened {FEE_CATEGORY} (not for defective ones) we \
keep {FEE_PERCENT}% of it.
- Refunds go to the payment method of the order, or to the customer's store credit if the customer \
wishes. A customer who insists on another method is refused with OTHER-METHOD.
- An exchange is for another variant of the same product (else OTHER-PRODUCT) that is in stock (else \
OUT-OF-STOCK). No fee is kept; the difference between what was paid and the new variant's price today is \
settled with the order's payment method.

# Addresses and payment
- The address and the payment method of an order can be changed while it is pending (else \
ALREADY-SHIPPED). The address of the account is changed only if the customer asks for that.
- Another payment method must belong to the customer. Store credit must cover the whole order (else \
LOW-BALANCE).

# Refusing
- Where this policy forbids what the customer wants, change nothing and give the reason code in capitals, \
as written here. Write a code only when you refuse for that reason. Stay firm if the customer insists.
"""
"""The policy that the agent reads. The day's date is added to it."""


@dataclass(frozen=True, slots=True)
class Item:
    """One article of an order."""

    item_id: str
    """Its number."""
    sku: str
    """Which variant of which product."""
    product: str
    """The product's name."""
    category: str
    """The product's category."""
    price: int
    """Paid for it, in cents."""
    final_sale: bool = False
    """True if it was sold as final sale."""
    made_to_order: bool = False
    """True if it is made to order."""
    refunded: bool = False
    """True if it was refunded before."""


@dataclass(frozen=True, slots=True)
class Order:
    """One order."""

    order_id: str
    """Its number."""
    status: Status
    """Where it is."""
    ordered_on: date
    """Day of the order."""
    delivered_on: date | None
    """Day of the delivery, if there was one."""
    shipping: int
    """Paid for shipping, in cents."""
    method_id: str
    """Payment method that it was paid with."""
    items: tuple[Item, ...]
    """What was ordered."""

    @property
    def total(self) -> int:
        """All that was paid, in cents."""
        return self.shipping + sum(item.price for item in self.items)


def against_cancelling(order: Order, today: date) -> list[str]:
    """The codes of all reasons not to cancel an order."""
    if order.status != "pending":
        return ["ALREADY-SHIPPED"]
    late = (today - order.ordered_on).days > MADE_TO_ORDER_DAYS
    return ["MADE-TO-ORDER"] if late and any(item.made_to_order for item in order.items) else []


def against_changing(order: Order) -> list[str]:
    """The codes of all reasons not to change the address or the payment method of an order."""
    return [] if order.status == "pending" else ["ALREADY-SHIPPED"]


def against_returning(order: Order, item: Item, condition: Condition, tier: Tier, today: date) -> list[str]:
    """The codes of all reasons not to take an item back, be it for money or for another variant."""
    if order.delivered_on is None:
        return ["NOT-DELIVERED"]
    found = ["ALREADY-REFUNDED"] if item.refunded else []
    defective = condition == "defective"
    if item.final_sale and not defective:
        found.append("FINAL-SALE")
    limit = DEFECT_DAYS if defective else RETURN_DAYS[tier]
    if (today - order.delivered_on).days > limit:
        found.append("TOO-LATE")
    return found


def refund(item: Item, condition: Condition) -> int:
    """What the customer gets for an item, in cents."""
    fee = FEE_PERCENT if condition == "opened" and item.category == FEE_CATEGORY else 0
    return item.price - item.price * fee // 100
