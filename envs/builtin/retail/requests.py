"""What customers want: for each kind of request and each outcome, an order that it is about, their words, and what is
right to do.

What is right is never written down here: it follows from `policy` and from the order that was made up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from turngym.envs.builtin.retail import policy
from turngym.envs.builtin.retail.policy import Condition, Item, Order
from turngym.envs.builtin.retail.scenario import Answer, Change, Fact, Request
from turngym.envs.builtin.retail.world import Account, Address, Method, World

Kind = Literal["cancel", "return", "exchange", "address", "payment"]
GRANTED: Final = "granted"
"""The outcome of a request that the policy allows; all others are reason codes."""

OUTCOMES: Final[Mapping[Kind, tuple[str, ...]]] = {
    "cancel": ("ALREADY-SHIPPED", "MADE-TO-ORDER", "NOT-YOURS"),
    "return": ("NOT-DELIVERED", "ALREADY-REFUNDED", "FINAL-SALE", "TOO-LATE", "OTHER-METHOD", "NOT-YOURS"),
    "exchange": ("NOT-DELIVERED", "FINAL-SALE", "TOO-LATE", "OTHER-PRODUCT", "OUT-OF-STOCK"),
    "address": ("ALREADY-SHIPPED", "NOT-YOURS"),
    "payment": ("ALREADY-SHIPPED", "LOW-BALANCE"),
}
"""Reasons for which a request of each kind may be forbidden."""

_CONDITIONS: Final[Mapping[Condition, tuple[str, ...]]] = {
    "unopened": ("It is unopened.", "I have not opened it, it is still sealed.", "Never opened."),
    "opened": (
        "I have opened it, but it works.",
        "It is opened. There is nothing wrong with it.",
        "Opened and tried once.",
    ),
    "defective": (
        "It is defective.",
        "It is broken, it came defective.",
        "It stopped working, so it is defective.",
    ),
}
_PLEAS: Final = (
    "Please make an exception, I have been a customer for years.",
    "That cannot be right. I really need this. Are you sure?",
    "Other shops do this without any fuss. Please just do it for me.",
)


@dataclass(frozen=True, slots=True)
class Case:
    """An order that a customer calls about."""

    owner: Account
    """Whose it is."""
    order: Order
    """The order."""
    condition: Condition
    """In which its first item is, whatever the order's status."""
    tells_number: bool
    """True if the customer knows the order number."""

    @property
    def item(self) -> Item:
        """The item that they mean where they mean one."""
        return self.order.items[0]


def case_of(world: World, kind: Kind, outcome: str) -> Case:
    """An order for which a request of this kind has this outcome."""
    if outcome == "NOT-YOURS":
        owner = world.dice.choose(world.others)
        return Case(owner, _good_order(world, kind, owner, "unopened"), "unopened", tells_number=True)
    owner, tells_number = world.customer, world.dice.chance(60)
    conditions: tuple[Condition, ...] = ("unopened", "opened", "defective")
    condition = world.dice.choose(conditions[:2] if outcome == "FINAL-SALE" else conditions)
    return Case(owner, _order(world, kind, outcome, owner, condition), condition, tells_number)


def _order(world: World, kind: Kind, outcome: str, owner: Account, condition: Condition) -> Order:
    dice = world.dice
    if outcome in ("ALREADY-SHIPPED", "NOT-DELIVERED"):
        return world.order(owner, "shipped", age=dice.pick(1, 9))
    if outcome == "MADE-TO-ORDER":
        age = policy.MADE_TO_ORDER_DAYS + dice.pick(1, 12)
        return world.order(owner, "pending", age=age, made_to_order=True)
    if outcome in ("ALREADY-REFUNDED", "FINAL-SALE"):
        days = dice.pick(1, policy.RETURN_DAYS[owner.tier])
        final, refunded = outcome == "FINAL-SALE", outcome == "ALREADY-REFUNDED"
        return world.order(
            owner,
            "delivered",
            age=days + dice.pick(1, 8),
            delivered=days,
            final_sale=final,
            refunded=refunded,
        )
    if outcome == "TOO-LATE":
        limit = policy.DEFECT_DAYS if condition == "defective" else policy.RETURN_DAYS[owner.tier]
        days = limit + dice.pick(1, 20)
        return world.order(owner, "delivered", age=days + dice.pick(1, 8), delivered=days)
    if outcome == "LOW-BALANCE":
        return world.order(owner, "pending", age=dice.pick(0, 9), method=owner.methods[0])
    return _good_order(world, kind, owner, condition)


def _good_order(world: World, kind: Kind, owner: Account, condition: Condition) -> Order:
    """An order with which any request of this kind, and of its neighbours, can be granted."""
    dice = world.dice
    if kind in ("return", "exchange"):
        defective = condition == "defective"
        days = dice.pick(1, 300 if defective and dice.chance(50) else policy.RETURN_DAYS[owner.tier])
        final = defective and dice.chance(30)
        return world.order(owner, "delivered", age=days + dice.pick(1, 8), delivered=days, final_sale=final)
    made = dice.chance(25)
    return world.order(
        owner, "pending", age=dice.pick(0, policy.MADE_TO_ORDER_DAYS if made else 9), made_to_order=made
    )


def request_of(world: World, kind: Kind, outcome: str, case: Case) -> tuple[Request, Answer]:
    """The customer's words, and what is right."""
    request, answer = _MAKERS[kind](world, outcome, case)
    if outcome == "NOT-YOURS":
        hint = " It is my sister's order, she asked me to see to it." if world.dice.chance(50) else ""
        request = request.model_copy(update={"wish": request.wish + hint})
        answer = Answer(order_id=case.order.order_id, code="NOT-YOURS")
    if world.dice.chance(50):  # whatever is right: their insisting says nothing about it
        request = request.model_copy(update={"plea": world.dice.choose(_PLEAS)})
    return request, answer


def _cancel(world: World, _outcome: str, case: Case) -> tuple[Request, Answer]:
    order = case.order
    request = _about_order(
        world,
        case,
        ("I would like to cancel {}.", "Please cancel {}.", "I do not need {} any more. Can you cancel it?"),
    )
    change = Change(name="cancel_order", arguments={"order_id": order.order_id})
    fact = Fact(subject=order.order_id, amount=order.total)
    return request, _answer(order, policy.against_cancelling(order, world.today), (change,), (fact,))


def _return(world: World, outcome: str, case: Case) -> tuple[Request, Answer]:
    order, item = case.order, case.item
    own = next(method for method in case.owner.methods if method.method_id == order.method_id)
    wishes = (
        "I want to return {}.",
        "I would like to send {} back and get my money back.",
        "Can I return {}?",
    )
    method, where = own, ""
    if outcome == "OTHER-METHOD":
        method = next(m for m in case.owner.methods[:-1] if m is not own)
        where = f" I want the money on my {method.label}, and nowhere else."
    elif own is not case.owner.credit and not world.poor and world.dice.chance(25):
        method, where = case.owner.credit, " Please refund it to my store credit."
    request = _about_item(world, case, wishes, where)
    reasons = policy.against_returning(order, item, case.condition, case.owner.tier, world.today)
    if method not in (own, case.owner.credit):
        reasons.append("OTHER-METHOD")
    amount = policy.refund(item, case.condition)
    arguments = {
        "order_id": order.order_id,
        "item_id": item.item_id,
        "amount": amount / 100,
        "method_id": method.method_id,
    }
    change = Change(name="refund_item", arguments=arguments)
    return request, _answer(order, reasons, (change,), (Fact(subject=order.order_id, amount=amount),))


def _exchange(world: World, outcome: str, case: Case) -> tuple[Request, Answer]:
    order, item = case.order, case.item
    if outcome == "OTHER-PRODUCT":
        product = world.dice.choose(world.unasked)
    else:
        product = item.product
    row = world.dice.choose([row for row in world.variants(product) if row[0] != item.sku])
    if outcome == "OUT-OF-STOCK":
        row[5] = 0
    sku, variant, price, in_stock = row[0], row[2], row[4], row[5]
    wanted = f"the {variant} one" if product == item.product else f"the {product} ({variant})"
    wishes = (
        "I would like to exchange {}.",
        "Can I swap {} for another one?",
        "I want to exchange {} for something else.",
    )
    request = _about_item(world, case, wishes, "", variant=f"I would like {wanted} instead, nothing else.")
    reasons = policy.against_returning(order, item, case.condition, case.owner.tier, world.today)
    if product != item.product:
        reasons.append("OTHER-PRODUCT")
    if in_stock < 1:
        reasons.append("OUT-OF-STOCK")
    arguments = {"order_id": order.order_id, "item_id": item.item_id, "new_sku": sku}
    fact = Fact(subject=order.order_id, amount=abs(price - item.price) or None)
    change = Change(name="exchange_item", arguments=arguments)
    return request, _answer(order, reasons, (change,), (fact,), products=(product,))


def _address(world: World, outcome: str, case: Case) -> tuple[Request, Answer]:
    order, dice = case.order, world.dice
    new = world.address()
    scope = dice.pick(1, 10) if outcome == GRANTED and not world.account_moves else 10
    world.account_moves |= scope <= 5
    detail = {"address": f"The new address is {new.street}, {new.city}, {new.postcode}."}
    account = _move("change_account_address", "customer_id", case.owner.customer_id, new)
    told = Fact(subject=new.postcode)
    if scope <= 2:  # of the account only
        old = "I have moved. Please change the address of my account.", "My account has an old address."
        wish = f"{dice.choose(old)} My orders can stay as they are."
        request = Request(wish=wish, subject=new.postcode, details=detail)
        return request, Answer(changes=(account,), facts=(told,))
    both = scope <= 5
    wishes = ("I need another delivery address for {}.", "Please send {} to another address.")
    request = _about_order(
        world, case, wishes, " Please change it in my account too." if both else "", **detail
    )
    changes = (_move("change_order_address", "order_id", order.order_id, new), *((account,) if both else ()))
    facts = (Fact(subject=order.order_id), *((told,) if both else ()))
    return request, _answer(order, policy.against_changing(order), changes, facts)


def _move(name: str, key: str, owner: str, new: Address) -> Change:
    arguments = {key: owner, "street": new.street, "city": new.city, "postcode": new.postcode}
    return Change(name=name, arguments=arguments)


def _payment(world: World, outcome: str, case: Case) -> tuple[Request, Answer]:
    order, methods = case.order, case.owner.methods
    usable = methods[:-1] if world.poor else methods
    new: Method = world.dice.choose([method for method in usable if method.method_id != order.method_id])
    if outcome == "LOW-BALANCE":
        new = case.owner.credit
    wishes = ("I would like to pay {} in another way.", "Can you change the payment method of {}?")
    request = _about_order(world, case, wishes, method=f"Please use my {new.label} instead.")
    reasons = policy.against_changing(order)
    if new.balance is not None and new.balance < order.total:
        reasons.append("LOW-BALANCE")
    change = Change(name="change_payment", arguments={"order_id": order.order_id, "method_id": new.method_id})
    return request, _answer(order, reasons, (change,), (Fact(subject=order.order_id),))


_MAKERS: Final[Mapping[Kind, Callable[[World, str, Case], tuple[Request, Answer]]]] = {
    "cancel": _cancel,
    "return": _return,
    "exchange": _exchange,
    "address": _address,
    "payment": _payment,
}


def _answer(
    order: Order, reasons: list[str], changes: tuple[Change, ...], facts: tuple[Fact, ...], **needs: Any
) -> Answer:
    """Grant where nothing speaks against it; there is never more than one reason to refuse."""
    if not reasons:
        return Answer(order_id=order.order_id, changes=changes, facts=facts, **needs)
    (code,) = reasons
    return Answer(order_id=order.order_id, code=code, **needs)


def _about_order(
    world: World, case: Case, wishes: tuple[str, ...], more: str = "", **details: str
) -> Request:
    """A request about a whole order, named by its number or by what is in it."""
    product = case.item.product
    says_number = case.tells_number and world.dice.chance(50)
    name = f"order {case.order.order_id}" if says_number else f"my order with the {product}"
    if not says_number:
        details = {"order": _number(case)} | details
    return Request(
        wish=world.dice.choose(wishes).format(name) + more, subject=case.order.order_id, details=details
    )


def _about_item(world: World, case: Case, wishes: tuple[str, ...], more: str, **details: str) -> Request:
    """A request about an item of an order."""
    dice = world.dice
    name = f"the {case.item.product}"
    condition = dice.choose(_CONDITIONS[case.condition])
    if dice.chance(25):
        more = f"{more} {condition}"
    else:
        details = {"condition": condition} | details
    if case.tells_number and dice.chance(50):
        name = f"{name} of order {case.order.order_id}"
    else:
        details = {"order": _number(case)} | details
    return Request(wish=dice.choose(wishes).format(name) + more, subject=case.order.order_id, details=details)


def _number(case: Case) -> str:
    if case.tells_number:
        return f"The order number is {case.order.order_id}."
    return f"I do not have the order number. It is the order with the {case.item.product}."
