"""Which renderer turns messages into tokens: the `renderers` library's where it is proven equal, else ours.

This is the only module that knows the library `renderers` (hand-written renderers of some thirty model
families). A template is recognised by the hash of its text, and the library's renderer is taken only if it
gives the same ids as the template itself on a few fixed conversations; everything else goes through our
bridge. Nothing here touches a network: the library's own choice, which asks a model hub, is never used.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from turngym.agents.bridge import TemplateBridge
from turngym.agents.errors import TemplateError
from turngym.agents.parsing import hermes_call
from turngym.agents.protocols import Renderer
from turngym.agents.templates.canned import CONVERSATIONS, try_extension
from turngym.agents.templates.dialect import Dialect, texts_of
from turngym.agents.templates.encoding import Marks, TextCodec
from turngym.agents.templates.source import ChatTemplate, ChatTokenizer, Wire
from turngym.envs.errors import MissingExtra
from turngym.envs.messages import FunctionCall, Message, ToolCall, ToolSpec

KNOWN_TEMPLATES: Mapping[str, str] = {
    "a55ee1b1660128b7": "qwen3",
    "9d879ef91075acbf": "qwen3-vl",
    "a4aee8afcf2e0711": "qwen3.5",
    "e84f32a23fdda276": "qwen3.6",
    "c3cf9e34abf4f9e3": "qwen3.8",
    "43a92aacc2e169bb": "nemotron-3",  # nano
    "3b74d76d8b903752": "nemotron-3",  # super
    "82753bef5cedc493": "nemotron-3-ultra",
    "58933db77d3099b4": "nemotron-3.5",
}
"""Hash of a template's text → the library's renderer for it, on trial."""

_NEVER = {
    "auto": "it asks a model hub",
    "custom": "it imports code by name",
    "default": "it never extends; the bridge does",
    "gpt-oss": "it downloads its vocabulary",
}
"""Renderers of the library that are not offered, and why."""


def choose_renderer(
    tokenizer: ChatTokenizer, *, renderer: str = "auto", stop_ids: Iterable[int] = ()
) -> Renderer:
    """The renderer of a model.

    Args:
        tokenizer: a transformers tokenizer with a chat template.
        renderer: "auto"; "bridge" for ours; or the name of one of the library's, which is then used even if
            it does not reproduce the template (`describe()` says so).
        stop_ids: more tokens that end a turn, such as those in a model's generation config.

    Raises:
        TemplateError: the template cannot be rendered, or the name is unknown.
        MissingExtra: a renderer of the library was named and the library is not installed.
    """
    stop_ids = tuple(stop_ids)
    if renderer == "bridge":
        return TemplateBridge(tokenizer, stop_ids=stop_ids)
    if renderer != "auto":
        forced = LibraryRenderer(tokenizer, renderer, stop_ids=stop_ids)
        forced.why = f"asked for; {forced.difference() or 'same ids as the chat template'}"
        return forced
    template = ChatTemplate(tokenizer)
    known = KNOWN_TEMPLATES.get(template.digest)
    if known is None:
        return TemplateBridge(tokenizer, stop_ids=stop_ids, why="the chat template is not in the table")
    try:
        candidate = LibraryRenderer(tokenizer, known, stop_ids=stop_ids)
    except (MissingExtra, TemplateError) as error:
        return TemplateBridge(
            tokenizer, stop_ids=stop_ids, why=f"the renderer {known!r} cannot be used: {error}"
        )
    difference = candidate.difference()
    if difference is not None:
        return TemplateBridge(
            tokenizer, stop_ids=stop_ids, why=f"the renderer {known!r} failed its test: {difference}"
        )
    candidate.why = "the chat template is in the table; same ids as the chat template"
    return candidate


class LibraryRenderer:
    """A `Renderer` that is one of the library's."""

    def __init__(self, tokenizer: ChatTokenizer, family: str, *, stop_ids: Iterable[int] = ()) -> None:
        """Make the library's renderer for a model family.

        Raises:
            TemplateError: there is no such renderer, or it does not fit the tokenizer.
            MissingExtra: the library is not installed.
        """
        self.why = ""
        """Why it was chosen, for the record."""
        self._tokenizer = tokenizer
        self._family = family
        self._template = ChatTemplate(tokenizer)
        self._codec = TextCodec(tokenizer, self._template.source)
        self._dialect = Dialect()
        self._made: dict[Marks | None, Any] = {}
        plain = self._library(None)
        self._stop_ids = tuple(dict.fromkeys([*plain.get_stop_token_ids(), *stop_ids]))
        hello: list[Wire] = [{"role": "user", "content": "hello"}]
        without = plain.render_ids(hello, add_generation_prompt=False)
        self._prompt = tuple(plain.render_ids(hello, add_generation_prompt=True)[len(without) :])

    @property
    def name(self) -> str:
        """The library and its renderer."""
        return f"renderers:{self._family}"

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The library's stop tokens and those that were given."""
        return self._stop_ids

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[int, ...]:
        """The ids of a whole conversation, ending with the generation prompt.

        Raises:
            TemplateError: the library refuses the conversation.
        """
        guard = self._codec.guard(texts_of(messages, tools))
        wires, wire_tools = self._dialect.wire(messages, tools, guard)
        try:
            ids = self._library(guard.marks).render_ids(
                wires, tools=wire_tools or None, add_generation_prompt=True
            )
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise TemplateError(f"{self.name} cannot render this conversation: {error}") from error
        return tuple(ids)

    def extend(
        self,
        previous_ids: Sequence[int],
        new_messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        history: Sequence[Message],  # noqa: ARG002 - the library reads all that it needs from the tokens
    ) -> tuple[int, ...] | None:
        """The ids that follow `previous_ids`, or None where the library declines."""
        previous = list(previous_ids)
        split = self._start_of_turn(previous)
        if split is None:
            return None
        guard = self._codec.guard(texts_of(new_messages, ()))
        wires, wire_tools = self._dialect.wire(new_messages, tools, guard)
        bridged = self._library(guard.marks).bridge_to_next_turn(
            previous[:split], previous[split:], wires, tools=wire_tools or None
        )
        if bridged is None or list(bridged.token_ids[: len(previous)]) != previous:
            return None
        return tuple(bridged.token_ids[len(previous) :])

    def parse(self, action_ids: Sequence[int], tools: Sequence[ToolSpec]) -> Message:
        """The assistant's message in the sampled ids; malformed tool calls are kept with their raw text."""
        parsed = self._library(None).parse_response(
            list(action_ids), tools=[tool.wire() for tool in tools] or None, prompt_ids=list(self._prompt)
        )
        calls = tuple(
            _tool_call(
                call,
                f"call_{number}",
                self._codec.decode(action_ids[slice(*call.token_span)]) if call.token_span else None,
            )
            for number, call in enumerate(parsed.tool_calls)
        )
        content = parsed.content or ""
        return Message(
            role="assistant",
            content=content or None if calls else content,
            reasoning_content=parsed.reasoning_content or None,
            tool_calls=calls,
        )

    def describe(self) -> Mapping[str, str]:
        """What was chosen and why, for the run's record."""
        return {
            "renderer": self.name,
            "why": self.why,
            "template": self._template.digest,
            "tools": "by the template",
            "stop_tokens": " ".join(self._codec.decode([id]) for id in self._stop_ids),
        }

    def difference(self) -> str | None:
        """Where the library and the chat template part on the fixed conversations; None if nowhere."""
        compared = 0
        guard = self._codec.guard(())
        for canned in CONVERSATIONS:
            for messages in (canned.history[:-1], (*canned.history, *canned.new)):
                try:
                    text = self._template.text(
                        *self._dialect.wire(messages, canned.tools, guard), generation=True
                    )
                except TemplateError:
                    continue
                compared += 1
                try:
                    same = self.render(messages, canned.tools) == self._codec.encode(text)
                except TemplateError as error:
                    return str(error)
                if not same:
                    return f"other ids than the chat template before {canned.label}"
            if try_extension(self, canned) == "differs":
                return f"an extension with other ids than the whole conversation for {canned.label}"
        return None if compared else "the chat template refuses every fixed conversation"

    def _library(self, marks: Marks | None) -> Any:
        """The library's renderer; with marks, one whose tokenizer encodes what is marked as text."""
        if marks not in self._made:
            tokenizer = (
                self._tokenizer if marks is None else _MarkedTokenizer(self._tokenizer, self._codec, marks)
            )
            self._made[marks] = _make(tokenizer, self._family)
        return self._made[marks]

    def _start_of_turn(self, ids: list[int]) -> int | None:
        """Where the sampled turn starts: after the last generation prompt."""
        prompt, count = list(self._prompt), len(self._prompt)
        starts = (at + count for at in range(len(ids) - count, -1, -1) if ids[at : at + count] == prompt)
        return next(starts, None) if count else None


class _MarkedTokenizer:
    """A tokenizer that encodes what stands between marks as ordinary text.

    It has no `__call__` on purpose: the library then encodes through `encode` alone.
    """

    def __init__(self, tokenizer: ChatTokenizer, codec: TextCodec, marks: Marks) -> None:
        self._tokenizer = tokenizer
        self._codec = codec
        self._marks = marks

    def encode(self, text: str, **_options: Any) -> list[int]:
        return list(self._codec.encode(text, self._marks))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._tokenizer, name)


def _make(tokenizer: Any, family: str) -> Any:
    if family in _NEVER:
        raise TemplateError(
            f"the library's renderer {family!r} is not offered: {_NEVER[family]}. Choose auto or bridge."
        )
    try:
        library = importlib.import_module("renderers")
        configs = importlib.import_module("renderers.configs")
    except ImportError as error:
        raise MissingExtra(
            f'the renderer {family!r} needs the library renderers: pip install "turngym[train]" '
            '(or choose the renderer "bridge")'
        ) from error
    try:
        config = configs.config_from_name(family)
    except ValueError as error:
        raise TemplateError(
            f"no renderer {family!r}: choose auto, bridge or one of the library's. {error}"
        ) from error
    try:
        return library.create_renderer(tokenizer, config)
    except (AssertionError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise TemplateError(f"the renderer {family!r} does not fit this tokenizer: {error}") from error


def _tool_call(parsed: Any, id: str, whole: str | None) -> ToolCall:
    """The library's record of a call as ours, its arguments as the model wrote them where they can be told.

    Args:
        parsed: the library's record.
        id: id of the call.
        whole: the call's text with its tags, where the library knows where it stands.
    """
    raw = parsed.raw if whole is None else whole
    # A call of a tool that does not exist is well-formed: the environment answers it.
    if parsed.status.value not in ("ok", "unknown_tool") or not parsed.name:
        error = f"the call is malformed: {parsed.status.value.replace('_', ' ')}"
        return ToolCall(
            id=id, function=FunctionCall(name=parsed.name or "", arguments=raw), parse_error=error
        )
    written = hermes_call(parsed.raw, id, raw=raw)
    if written.name == parsed.name or not isinstance(parsed.arguments, dict):
        return written
    return ToolCall.of(parsed.name, parsed.arguments, id=id)
