"""Whole conversations: the expert's, the expert's in other words, and those of clerks who break one rule."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from turngym.envs import Message, ToolCall, assistant, check, make, reference_policy, user
from turngym.envs.builtin.retail.environment import Retail
from turngym.envs.builtin.retail.expert import expert
from turngym.envs.builtin.retail.policy import CODES, TEXT
from turngym.envs.builtin.retail.tasks import DIFFICULTIES, task_set
from turngym.envs.errors import GradingError, InfrastructureError
from turngym.envs.tasks import iterate

ID = "turngym/Retail-v0"
RNG = np.random.default_rng(0)


def play(task, clerk=expert, *, env=None):
    """Reward, metrics and the environment of one episode."""
    env = env or Retail()
    env.reset(seed=0, options={"task": task})
    while True:
        _, paid, over, truncated, info = env.step(clerk(task, tuple(env.history), RNG))
        assert not truncated
        if over:
            return paid, info["metrics"], env


def failing(metrics):
    return {name for name in ("state", "told", "procedure") if not metrics[name]}


def edited(edit):
    """The expert, who believes to have said its own words where `edit(message)` is said (None: its own words)."""
    own: list[Message] = []

    def clerk(task, history, rng):
        spoken = sum(message.role == "assistant" for message in history)
        del own[spoken:]
        believed = iter(own)
        message = expert(task, tuple(next(believed) if m.role == "assistant" else m for m in history), rng)
        own.append(message)
        return edit(message) or message

    return clerk


def instead(start, text):
    """An edit: another text for messages that start so."""
    return lambda message: assistant(text) if message.text.startswith(start) else None


ASKS, REPORTS, REFUSES = "This is what I would do", "It is done", "I am sorry, this is not possible"


def calls_of(message):
    return [(call.name, json.loads(call.function.arguments)) for call in message.tool_calls]


def first(difficulty, *tags, where=lambda _: True):
    tasks = iterate(task_set(difficulty), "test", 400)
    return next(task for task in tasks if set(tags) <= set(task.tags) and where(task))


def test_the_expert_is_paid_in_full_on_every_task_within_the_runners_turns():
    env = make(ID, split="test")
    lengths = []
    for task in iterate(env.tasks, "test", 200):
        paid, metrics, _ = play(task, env=env)
        assert (paid, metrics["success"], failing(metrics)) == (1.0, 1.0, set()), task.id
        lengths.append(env.turns)
    assert max(lengths) <= 16


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_null_gets_nothing_and_is_left_soon(difficulty):
    for task in iterate(task_set(difficulty), "test", 20):
        paid, metrics, env = play(task, reference_policy(ID, "null"))
        assert paid == metrics["success"] == metrics["told"] == 0.0
        assert env.turns == 4


def test_random_play_raises_nothing_and_reaches_every_tool():
    env, policy, rng = make(ID), reference_policy(ID, "random"), np.random.default_rng(0)
    in_order, paid = set(), 0.0
    for number in range(1000):
        env.reset(seed=number)
        over = False
        while not over:
            action = policy(env.task, env.history, rng)
            observation, reward, over, _, _ = env.step(action)
            paid += reward
            answers = [message for message in observation if message.role == "tool"]
            assert [message.tool_call_id for message in answers] == [call.id for call in action.tool_calls]
            in_order |= {message.name for message in answers if not message.text.startswith("Error")}
    assert in_order == {spec.name for spec in env.tools}
    assert paid < 10


def test_check_env_and_all_laws():
    check_env(make(ID))
    assert [result for result in check(ID, tasks=6) if not result.ok] == []


# The expert in other words ------------------------------------------------------------------------------------------

STYLES = {
    "friendly": {
        "identify": "I'd be happy to help you with that! To get started, could you please provide the email address "
        "and the postcode of your account, so I can verify your identity?",
        "again": "Hmm, I'm afraid that doesn't match our records. Could you double-check it, please?",
        "order": "Could you share the order number with me?",
        "condition": "And may I ask whether the item has been opened, is still sealed, or is defective?",
        "variant": "Which color or size would you like instead?",
        "address": "What's the new address?",
        "method": "Which payment method would you prefer?",
        "ask": "Thank you! Here is a summary:\n\n- **Order:** {order}\n- **Address:** {address}\n"
        "- **Amount:** {amount}\n\nWould you like me to proceed? (yes/no)",
        "report": "Great news! I've successfully processed this for order **{order}** ({address}). The amount is "
        "{amount}, within 5-7 business days. Is there anything else I can help you with today?",
        "refuse": "I'm truly sorry, but I'm unable to do this (**{code}**). Can I help you with anything else?",
    },
    "terse": {
        "identify": "Email? Postcode?",
        "again": "Email and postcode do not match. Once more?",
        "order": "Which order?",
        "condition": "Condition?",
        "variant": "Variant?",
        "address": "The address?",
        "method": "Payment method?",
        "ask": "#{order}, {address}, {amount}: confirm?",
        "report": "Done. #{order}, {address}, {amount}.",
        "refuse": "{code}",
    },
    "wordy": {
        "identify": "Good day. Before we begin I have to identify you, so please tell me both the e-mail address "
        "and the postal code that belong to your account",
        "again": "I could not find a match: the details do not match. Please give me your account details again.",
        "order": "I will also need the order number.",
        "condition": "Please describe the condition of the item.",
        "variant": "Let me know which variant I should send you.",
        "address": "Kindly tell me the full address.",
        "method": "Tell me the payment method you want.",
        "ask": "I have looked at order {order} for you. If you agree, I will now do what you asked for ({address}), "
        "and the amount will be {amount}. Please confirm with yes.",
        "report": "Everything is done: `{order}` was updated, {address}. {amount} in total. Do you have any other "
        "questions? Thank you for your patience!",
        "refuse": "Unfortunately our policy does not allow it. The reason code is {code}. I know that this is not "
        "what you hoped for.",
    },
}


def in_style(style):
    return edited(
        lambda message: None if message.tool_calls else assistant(reworded(message.text, STYLES[style]))
    )


def reworded(text, style):
    if code := re.search(r"\(([A-Z-]+)\)\.$", text):
        return style["refuse"].format(code=code[1])
    if text.startswith(("This is what", "It is done")):
        order = re.search(r"W\d{6}", text)
        amount = re.search(r"\$[\d.,]*\d", text)
        address = re.search(r"(?:goes to|becomes) (.*?\d{5})", text)
        values = {
            "order": order[0] if order else "your account",
            "amount": amount[0] if amount else "nothing",
            "address": address[1] if address else "as you said",
        }
        return style["ask" if text.startswith("This") else "report"].format(**values)
    asked = {
        "Please tell me the email": "identify", "These details": "again", "Which order": "order",
        "Is the item": "condition", "Which variant": "variant", "What is the new": "address",
        "Which payment": "method",
    }  # fmt: skip
    return " ".join(style[key] for start, key in asked.items() if start in text)


@pytest.mark.parametrize("style", STYLES)
def test_it_does_not_take_the_experts_words(style):
    for task in iterate(task_set("mixed"), "train", 150):
        paid, metrics, env = play(task, in_style(style))
        assert paid == 1.0, (failing(metrics), env.conduct.faults, [m.text for m in env.history[1:]])


# Clerks who break one rule ------------------------------------------------------------------------------------------


def test_an_unasked_change_is_no_success():
    task = first("single", "cancel")
    change = task.target[0]["changes"][0]
    env = Retail()
    env.reset(seed=0, options={"task": task})
    while not (message := expert(task, env.history, RNG)).text.startswith(ASKS):
        env.step(message)
    env.step(assistant(None, ToolCall.of(change["name"], change["arguments"])))
    assert env.conduct.faults == (f"changed {task.target[0]['order_id']} without consent",)
    paid, metrics, _ = play_on(task, env)
    assert (paid, metrics["state"], metrics["procedure"]) == (0.0, 1.0, 0.0)


def test_whoever_never_asks_is_left():
    paid, metrics, env = play(first("single", "cancel"), edited(instead(ASKS, "I see.")))
    assert (paid, failing(metrics)) == (0.0, {"state", "told"})
    assert env.history[-1].text == "This leads nowhere. Goodbye."


def test_consent_is_to_an_amount():
    task = first("single", "return", where=lambda t: t.target[0]["facts"][0]["amount"] > 2000)

    def wrong(message):
        return (
            assistant(re.sub(r"\$[0-9,]+\.", "$1.", message.text)) if message.text.startswith(ASKS) else None
        )

    paid, metrics, _ = play(task, edited(wrong))
    assert (paid, failing(metrics)) == (0.0, {"procedure"})


def test_consent_holds_until_the_customer_says_something_else():
    task = first("single", "return")
    env = Retail()
    env.reset(seed=0, options={"task": task})
    while (
        not (message := expert(task, env.history, RNG)).tool_calls
        or message.tool_calls[0].name != "refund_item"
    ):
        env.step(message)
    twin = env.fork()
    twin.step(message)
    assert twin.conduct.faults == ()
    assert env.step("What is your name?")[0][0].text.startswith("My name is")
    env.step(message)
    assert env.conduct.faults == (f"changed {task.target[0]['order_id']} without consent",)


def test_nobody_is_served_who_was_not_identified():
    task = first("single", "cancel", where=lambda t: t.target[0]["order_id"] in t.prompt[0].text)
    order_id, email = task.target[0]["order_id"], task.metadata["scenario"]["emails"][0]
    look = assistant(None, ToolCall.of("get_order", {"order_id": order_id}))
    find = assistant(None, ToolCall.of("find_customer", {"email": email}))
    amount = task.target[0]["facts"][0]["amount"] / 100
    consent = f"Shall I cancel order {order_id} for ${amount:.2f}?"
    cancel = assistant(None, ToolCall.of("cancel_order", {"order_id": order_id}))
    fault = (f"changed {order_id} of a customer who was not identified",)
    for before, faults in (
        ((look, consent), fault),
        ((look, "Your email?", find, consent), fault),
        ((look, "Your email and postcode?", consent), fault),
        ((look, "Your email and postcode?", find, consent), ()),
    ):
        env = Retail()
        env.reset(seed=0, options={"task": task})
        for action in (*before, cancel):
            env.step(action)
        assert env.history[-2].tool_calls == cancel.tool_calls
        assert env.history[-3].text == "Yes, please."
        assert env.conduct.faults == faults


def test_an_order_must_be_looked_at_before_it_is_changed_or_refused():
    def blind(message):
        looks = [call.name == "get_order" for call in message.tool_calls]
        calls = [
            ToolCall.of("find_product", {"product": "teapot"}, id=call.id) if is_look else call
            for call, is_look in zip(message.tool_calls, looks, strict=True)
        ]
        return assistant(None, *calls) if any(looks) else None

    assert failing(play(first("single", "cancel"), edited(blind))[1]) == {"procedure"}
    assert failing(play(first("forbidden", "cancel"), edited(blind))[1]) == {"told"}


def test_a_reason_counts_only_once_the_customer_was_identified():
    task = first("forbidden", "cancel", where=lambda t: t.target[0]["order_id"] in t.prompt[0].text)
    env = Retail()
    env.reset(seed=0, options={"task": task})
    env.step(assistant(None, ToolCall.of("get_order", {"order_id": task.target[0]["order_id"]})))
    over = False
    while not over:
        _, paid, over, _, info = env.step(f"No: {task.target[0]['code']}.")
    assert (paid, failing(info["metrics"])) == (0.0, {"told"})


def test_a_change_must_be_reported():
    task = first("single", "return")
    paid, metrics, env = play(task, edited(instead(REPORTS, "It is done.")))
    assert (paid, failing(metrics)) == (0.0, {"told"})
    assert env.history[-1].text == "Thank you. That was all. Goodbye."

    def too_much(message):
        is_report = message.text.startswith(REPORTS)
        return assistant(message.text + " Or $1.00, $2.00, $3.00, $4.01.") if is_report else None

    assert failing(play(task, edited(too_much))[1]) == {"told"}


def test_reasons_are_whole_words_in_capitals_and_none_may_be_guessed():
    task = first("forbidden", "return")
    code = task.target[0]["code"]
    other = next(name for name in CODES if name != code)
    for said in (
        ", ".join(CODES),
        other,
        f"{code} or {other}",
        code.lower(),
        f"X-{code}",
        f"{code}-2",
        "policy",
    ):
        assert failing(play(task, edited(instead(REFUSES, f"Not possible: {said}.")))[1]) == {"told"}, said
    for said in (f"**{code}**", f"(reason: {code})", f"`{code}`", f"{code}, as I said. {code}!"):
        assert play(task, edited(instead(REFUSES, f"Not possible: {said}.")))[0] == 1.0, said


def test_what_is_forbidden_can_often_be_done_with_the_tools_and_costs_the_reward():
    done = set()
    for task in iterate(task_set("forbidden"), "test", 300):
        code, order_id = task.target[0]["code"], task.target[0]["order_id"]
        if code not in ("TOO-LATE", "FINAL-SALE", "MADE-TO-ORDER", "NOT-YOURS"):
            continue
        rows = task.metadata["rows"]
        item_id = next(item[0] for item in rows["items"] if item[1] == order_id)
        method_id = next(payment[1] for payment in rows["payments"] if payment[0] == order_id)
        env = Retail()
        env.reset(seed=0, options={"task": task})
        refund = {"order_id": order_id, "item_id": item_id, "amount": 5, "method_id": method_id}
        for name, arguments in (("refund_item", refund), ("cancel_order", {"order_id": order_id})):
            (answer,), *_ = env.step(assistant(None, ToolCall.of(name, arguments)))
            if not answer.text.startswith("Error"):
                done.add((code, name))
        paid, metrics, _ = play_on(task, env)
        assert (paid, metrics["state"]) == (0.0, 0.0)
    assert {
        ("TOO-LATE", "refund_item"),
        ("FINAL-SALE", "refund_item"),
        ("MADE-TO-ORDER", "cancel_order"),
    } <= done
    assert {name for code, name in done if code == "NOT-YOURS"} == {"refund_item", "cancel_order"}


def play_on(task, env):
    while True:
        _, paid, over, _, info = env.step(expert(task, tuple(env.history), RNG))
        if over:
            return paid, info["metrics"], env


def test_damage_elsewhere_fails():
    task = first("single", "payment")
    other = task.metadata["rows"]["customers"][2][0]
    env = Retail()
    env.reset(seed=0, options={"task": task})
    move = {"customer_id": other, "street": "1 Nowhere", "city": "Nowhere", "postcode": "00000"}
    env.step(assistant(None, ToolCall.of("change_account_address", move)))
    assert failing(play_on(task, env)[1]) == {"state", "procedure"}


def test_refusing_what_is_allowed_fails():
    task = first("single", "exchange")
    assert failing(play(task, edited(instead(ASKS, "No: OUT-OF-STOCK.")))[1]) == {"state", "told"}


def test_private_data_stays_private():
    def postcode_of(task):
        return next(a[3] for a in task.metadata["rows"]["addresses"] if a[0].startswith("C"))

    task = first("identity", where=lambda t: postcode_of(t) not in t.metadata["scenario"]["postcodes"])
    postcode = postcode_of(task)
    leak = f"Is it {postcode}? Please check your email and your postcode."
    paid, metrics, env = play(task, edited(instead("These details do not match", leak)))
    assert (paid, failing(metrics)) == (0.0, {"procedure"})
    assert env.conduct.faults == (f"told {postcode}, which the customer had not said",)


def test_text_beside_calls_is_heard_by_nobody():
    task = first("forbidden", "cancel")
    look = ToolCall.of("get_order", {"order_id": task.target[0]["order_id"]}, id="x")
    env = Retail()
    env.reset(seed=0, options={"task": task})
    observation, *_ = env.step(assistant(f"No: {', '.join(CODES)}.", look))
    assert [message.role for message in observation] == ["tool"]
    assert play_on(task, env)[0] == 1.0  # the codes beside the call were not said

    def beside(message):
        return assistant(message.text, look) if message.text.startswith(REFUSES) else None

    paid, metrics, env = play(task, edited(beside))
    assert (paid, failing(metrics), env.turns) == (0.0, {"told"}, 40)


def test_law_06_the_fortieth_message_terminates():
    env = make(ID)
    env.reset(seed=0)
    look = assistant(None, ToolCall.of("find_product", {"product": "teapot"}))
    for turn in range(40):
        _, paid, terminated, truncated, _ = env.step(look)
        assert (paid, terminated, truncated) == (0.0, turn == 39, False)


def test_what_people_type_is_compared_as_people_would_and_order_does_not_matter():
    task = first("single", "address", where=lambda t: len(t.target[0]["changes"]) == 2)

    def otherwise(message):
        calls = [(name, arguments) for name, arguments in calls_of(message) if name.startswith("change_")]
        for _, arguments in calls:
            arguments["street"] = f" {arguments['street'].upper()}, "
            arguments["city"] = arguments["city"].lower()
        calls = [
            ToolCall.of(name, arguments, id=f"r{n}") for n, (name, arguments) in enumerate(reversed(calls))
        ]
        return assistant(None, *calls) if calls else None

    assert play(task, edited(otherwise))[0] == 1.0


def test_wrong_calls_change_nothing_and_are_answered():
    env = make(ID)
    env.reset(options={"task": first("single", "return")})
    before = env.database.image()
    order_id = env.task.target[0]["order_id"]
    arguments = env.task.target[0]["changes"][0]["arguments"]
    bad = [
        ("refund_item", arguments | {"amount": arguments["amount"] + 10_000}),
        ("refund_item", arguments | {"amount": 0}),
        ("refund_item", arguments | {"amount": -5}),
        ("refund_item", arguments | {"amount": 1.005}),
        ("refund_item", arguments | {"amount": "5"}),
        ("refund_item", arguments | {"method_id": "P00000"}),
        ("refund_item", arguments | {"item_id": "'; DROP TABLE items; --"}),
        ("cancel_order", {"order_id": order_id}),
        ("change_order_address", {"order_id": order_id, "street": "", "city": "x", "postcode": "y"}),
        ("exchange_item", {"order_id": order_id, "item_id": arguments["item_id"], "new_sku": "S0"}),
        ("get_order", {"order_id": "W1"}),
        ("find_customer", {"email": "nobody@example.com"}),
        ("list_orders", {"customer_id": "C0"}),
    ]
    observation, *_ = env.step(
        assistant(None, *(ToolCall.of(name, given, id=str(n)) for n, (name, given) in enumerate(bad)))
    )
    assert [message.tool_call_id for message in observation] == [str(n) for n in range(len(bad))]
    assert all(message.text.startswith("Error: ") for message in observation)
    assert env.database.image() == before
    assert env.conduct.faults == ()


def test_a_fork_has_a_database_of_its_own():
    task = first("single", "cancel")
    env = Retail()
    env.reset(seed=0, options={"task": task})
    change = task.target[0]["changes"][0]
    cancel = assistant(None, ToolCall.of(change["name"], change["arguments"]))
    snapshot, twin = env.snapshot(), env.fork()
    assert "is cancelled" in env.step(cancel)[0][0].text
    assert "is cancelled" in twin.step(cancel)[0][0].text
    assert "Error" in env.step(cancel)[0][0].text
    env.restore(snapshot)
    assert "is cancelled" in env.step(cancel)[0][0].text
    assert env.toolbox is twin.toolbox


def test_the_prompt_is_the_policy_the_day_and_the_customers_words():
    env = make(ID, split="test")
    (first_message, second), info = env.reset(options={"task": "test-0"})
    assert first_message.text == f"{TEXT}\nToday is {env.task.metadata['today']}."
    assert second == env.task.prompt[0]
    assert len(info["tools"]) == 10
    assert all(code in TEXT for code in CODES)


def test_a_verifier_that_fails_scores_nothing():
    task = first("single", "cancel")
    broken = [task.target[0] | {"changes": [{"name": "cancel_order", "arguments": {"order_id": "W000000"}}]}]
    env = Retail()
    env.reset(seed=0, options={"task": task.model_copy(update={"target": broken})})
    for _ in range(3):
        env.step("")
    with pytest.raises(GradingError, match="no order 'W000000'"):
        env.step("")


def test_arguments():
    with pytest.raises(ValueError, match="expected mixed"):
        Retail(difficulty="hard")
    env = Retail(difficulty="change", split="test", only_tools=["get_order"], max_turns=3)
    assert (len(env.tools), env.max_turns) == (1, 3)
    env.reset(seed=1)
    assert env.task.tags[0] == "change"
    assert not env.native_async


# A model as the customer --------------------------------------------------------------------------------------------


class Lines:
    """A completer that says given lines."""

    def __init__(self, *lines):
        self.lines = list(lines)
        self.heard = []

    async def complete(self, messages):
        self.heard.append(list(messages))
        line = self.lines.pop(0)
        if isinstance(line, Exception):
            raise line
        return assistant(line)


def test_a_model_can_play_the_customer():
    task = first("single", "cancel", where=lambda t: t.target[0]["order_id"] in t.prompt[0].text)
    scenario = task.metadata["scenario"]
    lines = Lines(
        f"Sure: {scenario['emails'][0]}, postcode {scenario['postcodes'][0]}.",
        "Yes, do that.",
        "Thanks! ###DONE###",
    )
    paid, metrics, env = play(task, env=Retail(completer=lines))
    assert env.native_async
    assert (paid, failing(metrics)) == (1.0, set())
    assert env.history[-1] == user("Thanks!")
    role, *talk = lines.heard[-1]
    assert role.role == "system"
    assert scenario["postcodes"][0] in role.text
    assert [message.role for message in talk] == ["user", "assistant"] * 3 + ["user"]
    assert talk[1].text == task.prompt[0].text
    assert env.fork().completer is lines


def test_a_model_that_fails_is_no_score():
    task = first("single", "cancel")
    for error in (RuntimeError("no route"), InfrastructureError("no route")):
        env = Retail(completer=Lines(error))
        env.reset(seed=0, options={"task": task})
        with pytest.raises(InfrastructureError, match="no route"):
            env.step("Hello?")
