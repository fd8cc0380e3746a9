"""A model's chat template as a function from wire messages to text, and the tokenizer that it belongs to."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from turngym.agents.errors import TemplateError

Wire = dict[str, Any]
"""A message or a tool description as an OpenAI-style dictionary, which is what templates read."""


class ChatTokenizer(Protocol):
    """The part of a transformers tokenizer that rendering uses."""

    @property
    def chat_template(self) -> Any:
        """The Jinja text, a mapping of named texts, or None."""
        ...

    @property
    def eos_token_id(self) -> int | None:
        """Id of the end-of-sequence token."""
        ...

    @property
    def added_tokens_decoder(self) -> Mapping[int, Any]:
        """The tokens that are matched before anything else is tokenised, by id."""
        ...

    def encode(self, text: str, **options: Any) -> list[int]:
        """Text to ids."""
        ...

    def decode(self, token_ids: Any, **options: Any) -> Any:
        """Ids to text."""
        ...

    def apply_chat_template(self, conversation: Any, **options: Any) -> Any:
        """Wire messages to text or ids."""
        ...


class ChatTemplate:
    """The text that a tokenizer's chat template makes of wire messages."""

    def __init__(self, tokenizer: ChatTokenizer) -> None:
        """Read the template's source.

        Raises:
            TemplateError: the tokenizer has no chat template.
        """
        self._tokenizer = tokenizer
        self.source = _source(tokenizer.chat_template)
        """The Jinja text (the default one, where there are several)."""
        self.digest = digest(self.source)
        """Hash of the source, by which known templates are recognised."""

    def text(self, messages: Sequence[Wire], tools: Sequence[Wire] = (), *, generation: bool) -> str:
        """The conversation as text; `generation` adds the prompt for the assistant's next turn.

        Raises:
            TemplateError: the template refuses the conversation.
        """
        try:
            return str(
                self._tokenizer.apply_chat_template(
                    list(messages),
                    tools=list(tools) or None,
                    add_generation_prompt=generation,
                    tokenize=False,
                )
            )
        except Exception as error:  # a template is foreign code: it may raise anything
            roles = ", ".join(message["role"] for message in messages) or "no messages"
            raise TemplateError(
                f"the chat template cannot render a conversation of [{roles}]: {error}. "
                "Give the tokenizer another chat_template, or change the messages."
            ) from error


def digest(source: str) -> str:
    """Hash of a template's text, blind to trailing white space."""
    normal = "\n".join(line.rstrip() for line in source.strip().splitlines())
    return hashlib.sha256(normal.encode()).hexdigest()[:16]


def _source(chat_template: Any) -> str:
    if isinstance(chat_template, Mapping):
        chat_template = chat_template.get("default") or next(iter(chat_template.values()), None)
    if not isinstance(chat_template, str) or not chat_template.strip():
        raise TemplateError(
            "the tokenizer has no chat template: set tokenizer.chat_template to the Jinja text of its model, "
            "or put it into chat_template.jinja beside the tokenizer's files."
        )
    return chat_template
