"""The tiny model's tokenizer and chat template: ChatML turns, tool calls as JSON between `<tool_call>` tags.

It is an ordinary fast tokenizer of the transformers library, lossless for any text that UTF-8 can spell.
"""

from __future__ import annotations

from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteFallback, Fuse
from tokenizers.decoders import Sequence as DecoderSequence
from tokenizers.models import Unigram
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from turngym.agents.models import tiny_vocabulary as vocabulary

# Every piece costs the same, so the best segmentation is the one with the fewest pieces. Bytes and special
# tokens cost more than any spelling of their own names: "<0x41>" or "<|im_end|>" in a text stays a string of
# characters.
_PIECE_SCORE = -1.0
_NEVER_BY_NAME = -100.0

# Each message is rendered from itself alone, so a longer conversation extends a shorter one. The tools are
# shown as short signatures: a small model pays for every token of its context, and learns what they do by
# calling them.
CHAT_TEMPLATE = """\
{%- macro signature(tool) -%}
  {%- set function = tool.function if tool.function is defined else tool -%}
  {{- function.name }}(
  {%- for name, schema in (function.parameters.properties or {}).items() -%}
    {{- name }}{% if schema.type is string %}: {{ schema.type }}{% endif -%}
    {%- if not loop.last %}, {% endif -%}
  {%- endfor %})
{%- endmacro -%}
{%- set has_system = messages and messages[0].role == 'system' -%}
{%- if has_system or tools -%}
  {{- '<|im_start|>system\\n' + ((messages[0].content or '') if has_system else '') -}}
  {%- if tools -%}
    {{- '\\n\\n# Tools' if has_system and messages[0].content else '# Tools' -}}
    {%- for tool in tools -%}{{- '\\n' + signature(tool) -}}{%- endfor -%}
  {%- endif -%}
  {{- '<|im_end|>' -}}
{%- endif -%}
{%- for message in messages -%}
  {%- if message.role == 'system' and loop.first -%}
  {%- elif message.role == 'tool' -%}
    {{- '<|im_start|>tool\\n<tool_response>\\n' + (message.content or '') -}}
    {{- '\\n</tool_response><|im_end|>' -}}
  {%- elif message.role == 'assistant' -%}
    {{- '<|im_start|>assistant\\n' -}}
    {%- if message.reasoning_content is string -%}
      {{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' -}}
    {%- endif -%}
    {{- message.content or '' -}}
    {%- for call in message.tool_calls or [] -%}
      {%- set function = call.function if call.function is defined else call -%}
      {%- if message.content or not loop.first -%}{{- '\\n' -}}{%- endif -%}
      {{- '<tool_call>\\n{"name": ' + (function.name | tojson) + ', "arguments": ' -}}
      {{- function.arguments if function.arguments is string else (function.arguments | tojson) -}}
      {{- '}\\n</tool_call>' -}}
    {%- endfor -%}
    {{- '<|im_end|>' -}}
  {%- else -%}
    {{- '<|im_start|>' + message.role + '\\n' + (message.content or '') + '<|im_end|>' -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""


def tiny_tokenizer(*, model_max_length: int) -> PreTrainedTokenizerBase:
    """Build the tokenizer: 512 tokens, pad `<|endoftext|>` (0), end of turn `<|im_end|>` (2)."""
    bytes_ = [f"<0x{value:02X}>" for value in vocabulary.BYTES]
    plain = [*vocabulary.ROLE_HEADERS, *vocabulary.CHARACTERS, *vocabulary.pieces()]
    scored = [(token, _NEVER_BY_NAME) for token in (*vocabulary.SPECIAL_TOKENS, *bytes_)]
    scored += [(token, _PIECE_SCORE) for token in plain]
    backend = Tokenizer(Unigram(scored, unk_id=0, byte_fallback=True))
    backend.decoder = DecoderSequence([ByteFallback(), Fuse()])
    backend.add_special_tokens([AddedToken(token, normalized=False) for token in vocabulary.SPECIAL_TOKENS])
    backend.add_tokens([AddedToken(token, normalized=False) for token in vocabulary.ROLE_HEADERS])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=vocabulary.PAD,
        eos_token=vocabulary.TURN_END,
        extra_special_tokens=[vocabulary.TURN_START],
        chat_template=CHAT_TEMPLATE,
        model_max_length=model_max_length,
        clean_up_tokenization_spaces=False,
    )
