"""The customer: scripted (rules over the agent's words, nothing random), or a language model that plays the role."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from turngym.envs.builtin.retail import reading
from turngym.envs.builtin.retail.reading import Cues, Said
from turngym.envs.builtin.retail.scenario import Request, Scenario
from turngym.envs.completer import Completer
from turngym.envs.errors import EnvError, InfrastructureError
from turngym.envs.messages import Message, assistant, system, user

_DOUBT: Final = """verify, verification, identity, identify, identification, account details, not match,
doesn't match, don't match, does not match, do not match, didn't match, double check,
double-check, recheck, our records, no account"""
TOPICS: Final[Mapping[str, Cues]] = {
    "name": Cues.of("your name, your full name, your last name, who are you"),
    "email": Cues.of(f"email, e-mail, mail address, {_DOUBT}"),
    "postcode": Cues.of(f"postcode, post code, postal code, zip, zip code, {_DOUBT}"),
    "order": Cues.of(
        "order number, order id, order no, which order, number of the order, number of your order"
    ),
    "condition": Cues.of(
        """condition, state, opened, unopened, packaging, package, sealed, used, unused, defect, defective,
        defects, damage, damaged, broken, wrong with, reason"""
    ),
    "variant": Cues.of(
        """variant, variants, color, colors, colour, colours, size, sizes, material, instead, which one,
        which product, exchange for, exchange it for, exchanged for, swap it for"""
    ),
    "address": Cues.of(
        """new address, the address, delivery address, shipping address, full address, what address,
        which address, street"""
    ),
    "method": Cues.of("method, methods, card, how would you like to pay, pay with"),
}
"""What in a message of the agent's asks about a topic."""

PATIENCE: Final = 4
"""Replies in a row in which the customer has nothing new to say before they give up."""
DONE: Final = "###DONE###"
"""What a model that plays the customer says at the end."""

_NO_QUESTION: Final = "Can you do it or not? If not, please tell me the reason."
_VAGUE: Final = "What exactly would you do? Please tell me the order number and the amount."
_GO_ON: Final = "Yes, please go ahead, and tell me when it is done."


class ScriptedCustomer:
    """Says what they want, gives details as they are asked, agrees, changes their mind, insists, or gives up.

    They react to what the agent writes and never to what is right, so nothing about the answer can be learnt from them:

    1. A reason code is a refusal: they accept it, or first plead once.
    2. After they have agreed, a message that reports something done and asks nothing ends the request.
    3. A question about a topic gets what they know about it.
    4. A question for consent that names the order number gets "Yes", or a change of mind, once everything is said.
    5. Anything else gets the next thing that they have not said yet, and at last impatience.

    Args:
        scenario: the role.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._number = 0
        self._told: frozenset[str] = frozenset()
        self._again: frozenset[str] = frozenset()
        self._agreed = self._pleaded = False
        self._patience = PATIENCE

    @property
    def _request(self) -> Request:
        return self._scenario.requests[self._number]

    def reply(self, said: Said) -> tuple[str, bool]:
        """The answer to a message of the agent's, and True if it is the last word."""
        if not said.text.strip():
            return self._impatient("Hello? Are you still there?")
        if reading.codes(said.text):
            return self._refused()
        if self._agreed and reading.reports(said):
            return self._next("Thank you.")
        if self._pleaded and not reading.asks(said):
            return self._next("That is a pity.")
        named = self._request.subject.lower() in said.words
        if named:
            self._told |= {"order"}
        asked = [topic for topic, cues in TOPICS.items() if cues.found_in(said)]
        new = [answer for topic in asked if (answer := self._new(topic))]
        if new:
            return self._progress(" ".join(new))
        if reading.asks_for_consent(said):
            return self._consent() if named else self._impatient(_VAGUE)
        if self._agreed:
            return self._impatient(_GO_ON)
        known = [answer for topic in asked if (answer := self._known(topic))]
        if known:
            return self._impatient(" ".join(known))
        for topic in ("email", "postcode", *self._request.details):
            if topic not in self._told and (answer := self._new(topic)):
                return self._progress(answer)
        return self._impatient(_NO_QUESTION)

    def _new(self, topic: str) -> str | None:
        """What they say about a topic for the first time, or mended when they are asked about their identity again."""
        if topic not in self._told:
            said = self._known(topic)
            if said is not None:
                self._told |= {topic}
            return said
        if topic not in self._again and len(self._versions(topic)) > 1:
            self._again |= {topic}
            return f"Oh, I am sorry. {self._known(topic)}"
        return None

    def _known(self, topic: str) -> str | None:
        """What they say about a topic; None if it is none of this request's."""
        if topic == "name":
            return f"My name is {self._scenario.name}."
        versions = self._versions(topic)
        if versions:
            value = versions[-1 if topic in self._again else 0]
            return f"My email address is {value}." if topic == "email" else f"My postcode is {value}."
        return self._request.details.get(topic)

    def _versions(self, topic: str) -> tuple[str, ...]:
        if topic == "email":
            return self._scenario.emails
        return self._scenario.postcodes if topic == "postcode" else ()

    def _consent(self) -> tuple[str, bool]:
        # Nobody can have proposed the right thing who has not been told everything.
        missing = [
            said for topic in self._request.details if topic not in self._told and (said := self._new(topic))
        ]
        if missing:
            return self._progress(" ".join(missing))
        if self._agreed:
            return self._impatient("Yes, please.")
        if self._request.abandoned:
            return self._next("Wait, please leave that. I have changed my mind.")
        self._agreed = True
        return self._progress("Yes, please.")

    def _refused(self) -> tuple[str, bool]:
        if self._request.plea is not None and not self._pleaded:
            self._pleaded = True
            return self._progress(self._request.plea)
        return self._next("That is a pity.")

    def _next(self, reaction: str) -> tuple[str, bool]:
        self._number += 1
        if self._number == len(self._scenario.requests):
            return f"{reaction} That was all. Goodbye.", True
        self._told -= self._scenario.requests[self._number].details.keys()
        self._agreed = self._pleaded = False
        return self._progress(f"{reaction} {self._request.wish}")

    def _progress(self, said: str) -> tuple[str, bool]:
        self._patience = PATIENCE
        return said, False

    def _impatient(self, said: str) -> tuple[str, bool]:
        self._patience -= 1
        if self._patience == 0:
            return "This leads nowhere. Goodbye.", True
        return said, False


_GREETING: Final = "Service desk, how can I help you?"
_ROLE: Final = """\
You play a customer who talks with the service desk of a shop. Write only what the customer says, one or two \
sentences at a time, and never anything that is not below. Your first message has been said already.
- Your name is {name}. Give your email address and your postcode only when asked: {identity}
- You have {count}, one after the other; bring up the next only when the one before is done or refused for good.
{requests}
- When the desk asks whether it shall do what you want, answer with "Yes" first.
- When nothing is left, or the desk leads you nowhere, write {done} and nothing else."""


async def played_reply(
    completer: Completer, scenario: Scenario, history: Sequence[Message]
) -> tuple[str, bool]:
    """What a model says in the customer's role, and True if it is the last word.

    Raises:
        InfrastructureError: the model failed.
    """
    # Many chat templates want a user's message first, and then the two in turn.
    heard = [system(role(scenario)), user(_GREETING)]
    for message in history:
        if message.role == "assistant" and not message.tool_calls:
            heard.append(user(message.text))
        elif message.role == "user":
            heard.append(assistant(message.text))
    try:
        said = (await completer.complete(heard)).text
    except EnvError:
        raise
    except Exception as error:
        raise InfrastructureError(f"the customer's model failed: {type(error).__name__}: {error}") from error
    if DONE in said:
        return said.replace(DONE, "").strip() or "Goodbye.", True
    return said, False


def role(scenario: Scenario) -> str:
    """A scenario as instructions for a model."""
    lines = []
    for number, request in enumerate(scenario.requests, start=1):
        parts = [f"  {number}. {request.wish}"]
        if request.details:
            parts.append(f"Only when asked: {' '.join(request.details.values())}")
        if request.abandoned:
            parts.append(
                "When the desk asks whether it shall do this, say no: you have changed your mind and want the next."
            )
        if request.plea is not None:
            parts.append(f"If it is refused, first answer once: {request.plea}")
        lines.append(" ".join(parts))
    first = f"{scenario.emails[0]} and {scenario.postcodes[0]}."
    second = f"{scenario.emails[-1]} and {scenario.postcodes[-1]}"
    identity = first if f"{second}." == first else f"{first} When asked again, correct yourself: {second}."
    count = "one request" if len(lines) == 1 else f"{len(lines)} requests"
    return _ROLE.format(
        name=scenario.name, identity=identity, count=count, requests="\n".join(lines), done=DONE
    )
