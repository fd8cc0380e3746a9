"""Exact tokens for any chat template: the first prompt is rendered, later ones extend what the engine saw.

An extension is found by difference. The template renders a short synthetic conversation, a stand-in reply
followed by the new messages; what comes there after the reply's text has to come after the sampled tokens:
the end of the assistant's turn (unless it was sampled), the new messages and the next generation prompt.

That is allowed only where the template leaves alone what came before. For every shape of conversation (roles,
calls, thinking, empty texts) this is tried once, on a conversation of that shape; where the template drops
earlier thinking, moves the tools or rewrites history in another way, a new segment has to start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from turngym.agents.errors import TemplateError
from turngym.agents.parsing import THINK_CLOSE, THINK_OPEN, parse_reply
from turngym.agents.templates.canned import CONVERSATIONS, try_extension
from turngym.agents.templates.dialect import find_dialect, texts_of
from turngym.agents.templates.encoding import Marks, TextCodec
from turngym.agents.templates.shapes import LAST, SAID, THOUGHT, shapes, skeleton, stub
from turngym.agents.templates.source import ChatTemplate, ChatTokenizer
from turngym.envs.messages import Message, ToolSpec, assistant, user

Context = Literal["plain", "short", "full"]
"""What the template must see to extend: any reply, one of the same shape, or a whole conversation of it."""

_USER = user(SAID)
_REPLY = assistant(LAST)
_MOST_KEPT = 4096
_LONGEST_KEPT = 2048


class TemplateBridge:
    """A `Renderer` for any chat template."""

    def __init__(
        self, tokenizer: ChatTokenizer, *, stop_ids: Iterable[int] = (), why: str = "asked for"
    ) -> None:
        """Try the template out.

        Args:
            tokenizer: a transformers tokenizer with a chat template.
            stop_ids: more tokens that end a turn, such as a model's generation config names.
            why: why the bridge was chosen, for the record.

        Raises:
            TemplateError: the template cannot be rendered at all, or nothing would end a turn.
        """
        self._template = ChatTemplate(tokenizer)
        self._codec = TextCodec(tokenizer, self._template.source)
        self._dialect = find_dialect(self._template, self._codec.guard(()))
        self._why = why
        self._contexts: dict[object, Context | None] = {}
        self._tails: dict[tuple[Message, ...], tuple[int, ...]] = {}
        self._turn_end = self._find_turn_end(tokenizer.eos_token_id)
        ends = [
            *(self._turn_end or ())[-1:],
            *([tokenizer.eos_token_id] if tokenizer.eos_token_id is not None else []),
        ]
        self._stop_ids = tuple(dict.fromkeys([*ends, *stop_ids]))
        if not self._stop_ids:
            raise TemplateError(
                "nothing ends a turn: the template writes no end-of-turn token and the tokenizer has no "
                "eos_token. Set tokenizer.eos_token."
            )
        prompt = self._text([_USER], (), generation=True).rpartition(SAID)[2]
        self._thinking_opened = prompt.rfind(THINK_OPEN) > prompt.rfind(THINK_CLOSE)
        self._verdicts = {canned.label: try_extension(self, canned) for canned in CONVERSATIONS}
        if "differs" in self._verdicts.values():
            self._turn_end = None

    @property
    def name(self) -> str:
        """Always "bridge"."""
        return "bridge"

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The template's end-of-turn token, the tokenizer's eos token, and those that were given."""
        return self._stop_ids

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[int, ...]:
        """The ids of a whole conversation, ending with the generation prompt.

        Raises:
            TemplateError: the template refuses the conversation.
        """
        marks = self._codec.guard(texts_of(messages, tools)).marks
        return self._codec.encode(self._text(messages, tools, generation=True, marks=marks), marks)

    def extend(
        self,
        previous_ids: Sequence[int],
        new_messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        history: Sequence[Message],
    ) -> tuple[int, ...] | None:
        """The ids that follow `previous_ids`, or None where the template rewrites what came before."""
        if self._turn_end is None or not history or history[-1].role != "assistant":
            return None
        if any(message.role == "assistant" for message in new_messages):
            return None
        context = self._context(history, new_messages, tools)
        if context is None:
            return None
        last = _REPLY if context == "plain" else stub(history[-1], native=self._dialect.tools)
        if context == "full":
            ids = self._tail_ids(skeleton(history[:-1]), last, new_messages, tools)
        elif context == "short":
            ids = self._tail_ids([_USER], last, new_messages, ())
        else:
            ids = self._plain_tail_ids(tuple(new_messages))
        turn_end = self._turn_end[-1:] if last.tool_calls else self._turn_end
        if ids is None or ids[: len(turn_end)] != turn_end:
            return None
        return ids[_sampled_part(previous_ids, turn_end) :]

    def parse(self, action_ids: Sequence[int], tools: Sequence[ToolSpec]) -> Message:  # noqa: ARG002
        """The assistant's message in the sampled ids; malformed tool calls are kept with their raw text."""
        ids = list(action_ids)
        turn_end = list(self._turn_end or ())
        if turn_end and ids[-len(turn_end) :] == turn_end:
            ids = ids[: -len(turn_end)]
        elif ids and ids[-1] in self._stop_ids:
            ids.pop()
        return parse_reply(
            self._codec.decode(ids),
            self._dialect.tool_format,
            thinks=self._dialect.thinks,
            thinking_opened=self._thinking_opened,
        )

    def describe(self) -> Mapping[str, str]:
        """What was chosen and why, for the run's record."""
        dialect = self._dialect
        groups: dict[str, list[str]] = {}
        for label, verdict in self._verdicts.items():
            groups.setdefault(verdict, []).append(label)
        return {
            "renderer": self.name,
            "why": self._why,
            "template": self._template.digest,
            "tools": "by the template" if dialect.tools else "in the system message",
            "tool_format": dialect.tool_format.name,
            "system": "own role" if dialect.system else "in front of the user's message",
            "thinking": "apart" if dialect.thinks else "part of the content",
            "stop_tokens": " ".join(self._codec.decode([id]) for id in self._stop_ids),
            **{f"tried, {verdict}": "; ".join(labels) for verdict, labels in groups.items()},
        }

    def _plain_tail_ids(self, new: tuple[Message, ...]) -> tuple[int, ...] | None:
        """The tail after any reply. It depends on the new messages alone, and tools' answers repeat a lot."""
        if (known := self._tails.get(new)) is not None:
            return known
        ids = self._tail_ids([_USER], _REPLY, new, ())
        if ids is not None and len(ids) <= _LONGEST_KEPT:
            if len(self._tails) >= _MOST_KEPT:
                self._tails.clear()
            self._tails[new] = ids
        return ids

    def _tail_ids(
        self, before: Sequence[Message], last: Message, new: Sequence[Message], tools: Sequence[ToolSpec]
    ) -> tuple[int, ...] | None:
        """The ids from the end of the assistant's turn on; None if the template refuses."""
        marks = self._codec.guard(texts_of([last, *new], ())).marks
        try:
            text = self._text([*before, last, *new], tools, generation=True, marks=marks)
        except TemplateError:
            return None
        tail = self._after(last, text)
        return None if tail is None else self._codec.encode(tail, marks, inside=True)

    def _text(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        generation: bool,
        marks: Marks | None = None,
    ) -> str:
        guard = self._codec.guard(()) if marks is None else self._codec.guard_with(marks)
        return self._template.text(*self._dialect.wire(messages, tools, guard), generation=generation)

    def _find_turn_end(self, eos_id: int | None) -> tuple[int, ...] | None:
        """The tokens that end an assistant's turn; None if the template ends the last turn differently.

        They are what the text after an assistant's content has in common with and without a message that
        follows, up to the last control token. A template without control tokens has none.
        """
        talk = [_USER, assistant(LAST)]
        try:
            last = self._text(talk, (), generation=False).partition(LAST)
            followed = self._text([*talk, _USER], (), generation=True).partition(LAST)
        except TemplateError:
            return None
        if not last[1] or not followed[1]:
            return None
        at_end = self._codec.encode(last[2], inside=True)
        between = self._codec.encode(followed[2], inside=True)
        common = 0
        while common < min(len(at_end), len(between)) and at_end[common] == between[common]:
            common += 1
        while common and not self._codec.is_control(between[common - 1]):
            common -= 1
        if common:
            return between[:common]
        if between[:1] == (eos_id,):
            return between[:1]
        return None if any(map(self._codec.is_control, at_end)) else ()

    def _context(
        self, history: Sequence[Message], new: Sequence[Message], tools: Sequence[ToolSpec]
    ) -> Context | None:
        key = (shapes(history), shapes(new), tuple(tool.name for tool in tools))
        if key not in self._contexts:
            if len(self._contexts) >= _MOST_KEPT:
                self._contexts.clear()
            self._contexts[key] = self._try_shape(history, new, tools)
        return self._contexts[key]

    def _try_shape(
        self, history: Sequence[Message], new: Sequence[Message], tools: Sequence[ToolSpec]
    ) -> Context | None:
        """Whether a conversation of this shape can be extended, and what the template must see to do it."""
        said, last, coming = (
            skeleton(history[:-1]),
            stub(history[-1], native=self._dialect.tools),
            skeleton(new),
        )
        try:
            seen = self._text(said, tools, generation=True)
            whole = self._text([*said, last, *coming], tools, generation=True)
        except TemplateError:
            return None
        tail = self._after(last, whole)
        if tail is None or not whole.startswith(seen):
            return None
        turn = whole[len(seen) : len(whole) - len(tail)]
        if last.reasoning_content and THOUGHT not in turn:
            return None
        candidates: tuple[tuple[Context, Message], ...] = (("plain", _REPLY), ("short", last))
        for context, reply in candidates:
            try:
                text = self._text([_USER, reply, *coming], (), generation=True)
            except TemplateError:
                continue
            if self._after(reply, text) == tail:
                return context
        return "full"

    def _after(self, last: Message, text: str) -> str | None:
        """What stands in a text after the stub of the assistant's turn, from its end-of-turn tokens on."""
        _, found, tail = text.partition(LAST)
        if not found:
            return None
        if not last.tool_calls:
            return tail
        # A call's closing brackets and tags belong to what was sampled; the turn ends at its last token.
        end = self._codec.decode(self._turn_end[-1:]) if self._turn_end else ""
        at = tail.find(end) if end else -1
        return tail[at:] if at >= 0 else None


def _sampled_part(previous_ids: Sequence[int], turn_end: tuple[int, ...]) -> int:
    """How many of the turn's closing tokens were sampled already."""
    if turn_end and previous_ids and previous_ids[-1] == turn_end[-1]:
        return len(turn_end)
    counts = range(len(turn_end) - 1, 0, -1)
    return next((count for count in counts if tuple(previous_ids[-count:]) == turn_end[:count]), 0)
