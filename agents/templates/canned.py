"""A few fixed conversations on which a renderer is tried before it is trusted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from turngym.agents.errors import TemplateError
from turngym.agents.protocols import Renderer
from turngym.envs.messages import (
    FunctionSpec,
    Message,
    ToolCall,
    ToolSpec,
    assistant,
    system,
    tool_result,
    user,
)

TOOL = ToolSpec(
    function=FunctionSpec(
        name="probe_lookup",
        description='Looks a "word" up; naïve & <quick>.',
        parameters={
            "type": "object",
            "properties": {"word": {"type": "string", "description": "what to look up"}},
            "required": ["word"],
        },
    )
)
"""A tool that no environment has."""

_FIRST = ToolCall.of(TOOL.name, {"word": "Zürich"}, id="call_0_0")
_SECOND = ToolCall.of(TOOL.name, {"word": "3 × 4 = ? 🙂", "deep": {"n": [1, 2.5, None]}}, id="call_0_1")
_CALL = assistant(None, _FIRST)
_TALK_AND_CALLS = assistant("Two at once.", _FIRST, _SECOND)
_THINKING_CALL = Message(
    role="assistant", content="", reasoning_content="The city first.", tool_calls=(_FIRST,)
)
_THINKING_REPLY = Message(role="assistant", content="It is 12.", reasoning_content="Three fours.\nTwelve.")


@dataclass(frozen=True, slots=True)
class Canned:
    """A conversation, and what comes next in it."""

    label: str
    """What it tries, for reports."""
    history: tuple[Message, ...]
    """What was said; the last message is the assistant's."""
    new: tuple[Message, ...]
    """The messages that follow."""
    tools: tuple[ToolSpec, ...] = ()
    """The tools on offer."""


CONVERSATIONS = (
    Canned(
        "a user's message",
        (system("Be brief."), user("Grüße, 你好 🙂"), assistant("Hallo.\n\n- one")),
        (user("And then?"),),
    ),
    Canned("a user's message, no system message", (user("Hello  \n\n there"), assistant("Hi")), (user("x"),)),
    Canned(
        "a tool's result",
        (system("Be brief."), user("Where is it?"), _CALL),
        (tool_result(_FIRST, "47.4° N\n8.5° E"),),
        (TOOL,),
    ),
    Canned(
        "two tools' results",
        (user("Both?"), _TALK_AND_CALLS),
        (tool_result(_FIRST, "a"), tool_result(_SECOND, "")),
        (TOOL,),
    ),
    Canned(
        "a user's message after tools",
        (user("Where?"), _CALL, tool_result(_FIRST, "CH"), assistant("In Switzerland.")),
        (user("Thanks. More?"),),
        (TOOL,),
    ),
    Canned(
        "a user's message, with thinking before it", (user("3 × 4?"), _THINKING_REPLY), (user("And 4 × 4?"),)
    ),
    Canned(
        "a tool's result, with thinking before it",
        (user("Where?"), _THINKING_CALL),
        (tool_result(_FIRST, "CH"),),
        (TOOL,),
    ),
)
"""What tasks are made of: talk, tools, several tools at once, thinking, Unicode, empty texts."""

Verdict = Literal["extends", "new segment", "differs", "refused", "no end token"]


def try_extension(renderer: Renderer, canned: Canned) -> Verdict:
    """Compare an extension with the end of the whole conversation rendered anew.

    The assistant's turn is taken from that rendering as if it had been sampled.

    Returns:
        "extends" if the renderer's extension is what follows the assistant's end-of-turn token there,
        "new segment" if the renderer declines, "differs" if it has other ids, "refused" if the template
        cannot render the conversation at all, "no end token" if it does not end the assistant's turn with a
        token, so that nothing more can be compared.
    """
    try:
        before = renderer.render(canned.history[:-1], canned.tools)
        after = renderer.render((*canned.history, *canned.new), canned.tools)
    except TemplateError:
        return "refused"
    turn: tuple[int, ...] = renderer.stop_ids[:1]
    if after[: len(before)] == before:
        # Otherwise the prompt's end was merged with the turn's start, or the template rewrites history.
        ends = (at + 1 for at, id in enumerate(after[len(before) :]) if id in renderer.stop_ids)
        turn = after[len(before) :][: next(ends, 0)] or turn
    extension = renderer.extend((*before, *turn), canned.new, canned.tools, canned.history)
    if extension is None:
        return "new segment"
    start = len(after) - len(extension)
    if start < 1 or after[start:] != extension:
        return "differs"
    return "extends" if after[start - 1] in renderer.stop_ids else "no end token"
