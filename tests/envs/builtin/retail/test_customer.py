"""The scripted customer, turn by turn."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.envs.builtin.retail.customer import DONE, PATIENCE, ScriptedCustomer, role
from turngym.envs.builtin.retail.policy import CODES
from turngym.envs.builtin.retail.reading import Said
from turngym.envs.builtin.retail.scenario import Request, Scenario
from turngym.envs.builtin.retail.tasks import task_set

FIRST = Request(
    wish="I want to return the teapot.",
    subject="W111111",
    details={"condition": "It is unopened.", "order": "The order number is W111111."},
    plea="Please!",
)
SECOND = Request(wish="Please cancel order W222222.", subject="W222222")
CALLER = {"name": "Ada Berg", "emails": ("ada@example.com",), "postcodes": ("12345",)}


def talk(*requests: Request, **caller):
    customer = ScriptedCustomer(Scenario(**(CALLER | caller), requests=requests or (FIRST,)))
    return lambda text: customer.reply(Said.of(text))


def test_a_request_from_the_first_question_to_goodbye():
    say = talk(FIRST, SECOND)
    assert say("Your email and postcode, please?") == (
        "My email address is ada@example.com. My postcode is 12345.",
        False,
    )
    assert say("What is your name? Which order is it?") == (
        "My name is Ada Berg. The order number is W111111.",
        False,
    )
    assert say("Is it unopened?") == ("It is unopened.", False)
    assert say("Shall I refund $12.00 for order W111111?") == ("Yes, please.", False)
    assert say("It is done. Anything else?") == ("Thank you. Please cancel order W222222.", False)
    assert say("No: ALREADY-SHIPPED.") == ("That is a pity. That was all. Goodbye.", True)


def test_consent_needs_the_order_number_and_everything_said():
    say = talk()
    assert say("Shall I take it back?") == (
        "What exactly would you do? Please tell me the order number and the amount.", False
    )  # fmt: skip
    assert say("Shall I take order W111111 back?") == ("It is unopened.", False)
    assert say("Shall I take order W111111 back?") == ("Yes, please.", False)
    assert say("Shall I take order W111111 back?") == ("Yes, please.", False)


def test_after_consent_they_wait_for_a_report():
    say = talk()
    say("condition?")
    say("Shall I take order W111111 back?")
    assert say("I will see to it.") == ("Yes, please go ahead, and tell me when it is done.", False)
    assert say("I have refunded it.") == ("Thank you. That was all. Goodbye.", True)


def test_a_report_without_consent_is_none():
    say = talk()
    assert say("Order W111111 was paid and has been delivered.")[0] == "My email address is ada@example.com."


def test_they_plead_once_and_stay_refused():
    for last in ("No, FINAL-SALE.", "I am sorry, I cannot. Is there anything else?"):
        say = talk()
        assert say("FINAL-SALE") == ("Please!", False)
        assert say(last) == ("That is a pity. That was all. Goodbye.", True)
    say = talk()
    say("FINAL-SALE")
    assert say("All right: what condition is it in?") == ("It is unopened.", False)
    assert say("Shall I refund order W111111?") == ("Yes, please.", False)


def test_they_change_their_mind_when_asked_for_consent():
    say = talk(SECOND.model_copy(update={"abandoned": True}), FIRST)
    reply = say("Shall I cancel order W222222?")[0]
    assert reply == "Wait, please leave that. I have changed my mind. I want to return the teapot."


def test_they_mend_a_slip_when_asked_again_and_only_then():
    say = talk(emails=("aada@example.com", "ada@example.com"))
    assert "aada@example.com" in say("Your email?")[0]
    assert say("Your postcode?") == ("My postcode is 12345.", False)
    assert say("That does not match.")[0] == "Oh, I am sorry. My email address is ada@example.com."
    assert say("Your email again?")[0] == "My email address is ada@example.com."


def test_they_say_one_thing_more_to_whatever_and_then_lose_patience():
    say = talk()
    replies = [say("Hm.") for _ in range(4 + PATIENCE)]
    assert [text for text, _ in replies[:4]] == [
        "My email address is ada@example.com.", "My postcode is 12345.", "It is unopened.",
        "The order number is W111111.",
    ]  # fmt: skip
    assert [over for _, over in replies] == [False] * (3 + PATIENCE) + [True]
    assert replies[-1][0] == "This leads nowhere. Goodbye."


def test_silence_is_no_question():
    say = talk()
    assert [say(" \n") for _ in range(PATIENCE)] == [("Hello? Are you still there?", False)] * (
        PATIENCE - 1
    ) + [("This leads nowhere. Goodbye.", True)]


_PIECES = [
    "W111111",
    "W222222",
    "Shall I",
    "confirm?",
    "email",
    "postcode",
    "condition",
    "done",
    "?",
    "refunded",
    *CODES,
]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.one_of(st.text(max_size=30), st.lists(st.sampled_from(_PIECES)).map(" ".join)), min_size=1)
)
def test_whatever_is_said_they_answer_and_never_go_on_for_ever(texts):
    customer = ScriptedCustomer(Scenario(**CALLER, requests=(FIRST, SECOND)))
    over = False
    for number in range(40):
        text, over = customer.reply(Said.of(texts[number % len(texts)]))
        assert text
        if over:
            break
    assert over


@pytest.mark.parametrize("index", range(12))
def test_a_role_for_a_model_holds_what_the_script_would_say(index):
    scenario = Scenario.model_validate(task_set("mixed").at("test", index).metadata["scenario"])
    text = role(scenario)
    for said in (scenario.name, scenario.emails[0], scenario.postcodes[-1], DONE):
        assert said in text
    for request in scenario.requests:
        assert request.wish in text
        assert all(detail in text for detail in request.details.values())
        assert request.plea is None or request.plea in text
