"""Chat templates of every kind that matters, small tokenizers for them, and an engine that plays a script."""

# ruff: noqa: E501 - a template is more readable with its long lines

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from turngym.agents.protocols import EpisodeStart, GenerateRequest, Generation, NoiseKey
from turngym.envs.messages import FunctionSpec, ToolSpec

CHATML_TOOLS = """\
{%- if tools %}{{- '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{% endif %}
{{- 'Tools, one a line:\\n<tools>' }}{% for tool in tools %}{{- '\\n' + (tool | tojson) }}{% endfor %}
{{- '\\n</tools><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}{% endif %}
{%- for m in messages %}
{%- if m.role == 'user' or (m.role == 'system' and not loop.first) %}
{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}
{%- elif m.role == 'assistant' %}{{- '<|im_start|>assistant\\n' + m.content }}
{%- for call in m.tool_calls or [] %}
{%- if m.content or not loop.first %}{{- '\\n' }}{% endif %}
{{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) + '}\\n</tool_call>' }}
{%- endfor %}{{- '<|im_end|>\\n' }}
{%- elif m.role == 'tool' %}
{%- if loop.first or loop.previtem.role != 'tool' %}{{- '<|im_start|>user' }}{% endif %}
{{- '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}
{%- if loop.last or loop.nextitem.role != 'tool' %}{{- '<|im_end|>\\n' }}{% endif %}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}"""

IGNORES_TOOLS = """\
{%- for m in messages %}
{%- if loop.first and m.role != 'system' %}{{- '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}{% endif %}
{{- '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}"""

LLAMA3 = """\
{{- bos_token }}
{%- for m in messages %}
{{- '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + (m.content | trim) + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"""

# Roles must alternate, the tools stand before the *last* user message, and call ids must have nine characters.
MISTRAL = """\
{{- bos_token }}
{%- if messages[0].role == 'system' %}{% set said = messages[0].content + '\\n\\n' %}{% set messages = messages[1:] %}
{%- else %}{% set said = '' %}{% endif %}
{%- set ns = namespace(last=-1, want='user') %}
{%- for m in messages %}
{%- if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}
{%- if m.role in ['user', 'assistant'] and not m.tool_calls %}
{%- if m.role != ns.want %}{{- raise_exception('roles must alternate') }}{% endif %}
{%- set ns.want = 'assistant' if m.role == 'user' else 'user' %}
{%- endif %}
{%- endfor %}
{%- for m in messages %}
{%- if m.role == 'user' %}
{%- if tools and loop.index0 == ns.last %}{{- '[AVAILABLE_TOOLS] ' + (tools | tojson) + '[/AVAILABLE_TOOLS]' }}{% endif %}
{{- '[INST] ' + (said if loop.first else '') + m.content + '[/INST]' }}
{%- elif m.role == 'assistant' and m.tool_calls %}
{%- for call in m.tool_calls %}
{%- if call.id | length != 9 %}{{- raise_exception('call ids have nine characters') }}{% endif %}
{%- endfor %}
{{- '[TOOL_CALLS] ' + (m.tool_calls | tojson) + eos_token }}
{%- elif m.role == 'assistant' %}{{- ' ' + (m.content | trim) + eos_token }}
{%- elif m.role == 'tool' %}{{- '[TOOL_RESULTS] ' + m.content + '[/TOOL_RESULTS]' }}
{%- else %}{{- raise_exception('unknown role ' + m.role) }}
{%- endif %}
{%- endfor %}"""

# Like Qwen3's: thinking is shown only in turns after the last message of the user.
DROPS_THINKING = """\
{%- if tools %}{{- '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{% endif %}
{{- '# Tools\\n\\nYou may call one or more functions to assist with the user query.\\n\\nYou are provided with function signatures within <tools></tools> XML tags:\\n<tools>' }}
{%- for tool in tools %}{{- '\\n' + (tool | tojson) }}{% endfor %}
{{- '\\n</tools>\\n\\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\\n<tool_call>\\n{"name": <function-name>, "arguments": <args-json-object>}\\n</tool_call><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}{% endif %}
{%- set ns = namespace(query=messages | length - 1) %}
{%- for m in messages %}
{%- if m.role == 'user' and not (m.content.startswith('<tool_response>') and m.content.endswith('</tool_response>')) %}
{%- set ns.query = loop.index0 %}{% endif %}
{%- endfor %}
{%- for m in messages %}
{%- if m.role == 'user' or (m.role == 'system' and not loop.first) %}
{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}
{%- elif m.role == 'assistant' %}
{%- set why = m.reasoning_content or '' %}
{{- '<|im_start|>assistant\\n' }}
{%- if loop.index0 > ns.query and (loop.last or why) %}{{- '<think>\\n' + why.strip('\\n') + '\\n</think>\\n\\n' + m.content.lstrip('\\n') }}
{%- else %}{{- m.content }}{% endif %}
{%- for call in m.tool_calls or [] %}
{%- if m.content or not loop.first %}{{- '\\n' }}{% endif %}
{{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments if call.function.arguments is string else (call.function.arguments | tojson) }}
{{- '}\\n</tool_call>' }}
{%- endfor %}{{- '<|im_end|>\\n' }}
{%- elif m.role == 'tool' %}
{%- if loop.first or loop.previtem.role != 'tool' %}{{- '<|im_start|>user' }}{% endif %}
{{- '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}
{%- if loop.last or loop.nextitem.role != 'tool' %}{{- '<|im_end|>\\n' }}{% endif %}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}"""

# Like DeepSeek-R1's: the prompt opens the thinking, which later turns do not show.
OPENS_THINKING = """\
{%- for m in messages %}
{{- '<|im_start|>' + m.role + '\\n' + m.content.split('</think>')[-1] + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n<think>\\n' }}{% endif %}"""

KEEPS_THINKING = """\
{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' }}
{%- if m.reasoning_content %}{{- '<think>\\n' + m.reasoning_content + '\\n</think>\\n\\n' }}{% endif %}
{{- m.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}"""

STRIPS = IGNORES_TOOLS.replace("m['content']", "(m['content'] | trim)")

# Like Gemma's.
NO_SYSTEM = """\
{{- bos_token }}
{%- for m in messages %}
{%- if m.role not in ['user', 'assistant'] %}{{- raise_exception('unknown role ' + m.role) }}{% endif %}
{%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{- raise_exception('roles must alternate') }}{% endif %}
{{- '<|im_start|>' + ('model' if m.role == 'assistant' else 'user') + '\\n' + (m.content | trim) + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>model\\n' }}{% endif %}"""

RAISES_ON_NULL = CHATML_TOOLS.replace(
    "{%- for m in messages %}",
    "{%- for m in messages %}{% if m.content is not string %}{{- raise_exception('content must be text') }}{% endif %}",
    1,
)

TEXT_ARGUMENTS = CHATML_TOOLS.replace("(call.function.arguments | tojson)", "call.function.arguments")

# Native tools, shown before the last message of the user: a new one moves them.
MOVES_TOOLS = CHATML_TOOLS.replace("{%- if tools %}", "{%- if false %}").replace(
    "{%- for m in messages %}",
    "{%- set ns = namespace(last=-1) %}{%- for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}"
    "{% endif %}{% endfor %}\n{%- for m in messages %}\n{%- if tools and loop.index0 == ns.last %}"
    "{{- '<|im_start|>system\\n' + (tools | tojson) + '<|im_end|>\\n' }}{% endif %}",
    1,
)

STRICT_RESULTS = CHATML_TOOLS.replace(
    "{%- elif m.role == 'tool' %}",
    "{%- elif m.role == 'tool' %}{% if loop.previtem.role == 'assistant' and not loop.previtem.tool_calls %}"
    "{{- raise_exception('a result without a call') }}{% endif %}",
)

PLAIN_TEXT = """\
{%- for m in messages %}{{- (m.role | capitalize) + ': ' + m.content + '\\n\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{- 'Assistant:' }}{% endif %}"""

PARTS = """\
{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' }}
{%- for part in m.content %}{% if part.type == 'text' %}{{- part.text }}{% endif %}{% endfor %}{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}"""

# Every message carries the number of messages, so nothing can be extended.
REWRITES = """\
{%- for m in messages %}
{{- '<|im_start|>' + m.role + ' ' + (loop.index | string) + '/' + (messages | length | string) + '\\n' + m.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}"""

# Every message carries its own number: an extension depends on how much was said before.
NUMBERS = REWRITES.replace(" + '/' + (messages | length | string)", "").replace(
    "'<|im_start|>assistant\\n'", "'<|im_start|>assistant ' + (messages | length + 1) | string + '\\n'"
)

# A result carries the name of the tool, looked up by the id of the call in the assistant's turn.
LOOKS_NAMES_UP = CHATML_TOOLS.replace(
    "{{- '\\n<tool_response>\\n' + m.content",
    "{%- set ns = namespace(name='?') %}{% for other in messages %}{% for call in other.tool_calls or [] %}"
    "{% if call.id == m.tool_call_id %}{% set ns.name = call.function.name %}{% endif %}{% endfor %}{% endfor %}"
    "{{- '\\n<tool_response>\\n' + ns.name + ' says ' + m.content",
)

# The end of the last turn is not the end of an earlier one, as in gpt-oss's.
OTHER_END = IGNORES_TOOLS.replace(
    "+ '<|im_end|>\\n' }}\n{%- endfor",
    "+ ('<|return|>' if loop.last and m.role == 'assistant' else '<|im_end|>\\n') }}\n{%- endfor",
)

# Two tokens end a turn, and with no prompt to come a third is added, as in Phi-3's.
TWO_TOKEN_END = """\
{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|end|><|im_end|>\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% else %}{{- eos_token }}{% endif %}"""

TEMPLATES: Mapping[str, str] = {
    "chatml_tools": CHATML_TOOLS,
    "ignores_tools": IGNORES_TOOLS,
    "llama3": LLAMA3,
    "mistral": MISTRAL,
    "drops_thinking": DROPS_THINKING,
    "opens_thinking": OPENS_THINKING,
    "keeps_thinking": KEEPS_THINKING,
    "strips": STRIPS,
    "no_system": NO_SYSTEM,
    "raises_on_null": RAISES_ON_NULL,
    "text_arguments": TEXT_ARGUMENTS,
    "strict_results": STRICT_RESULTS,
    "moves_tools": MOVES_TOOLS,
    "plain_text": PLAIN_TEXT,
    "parts": PARTS,
    "rewrites": REWRITES,
    "numbers": NUMBERS,
    "looks_names_up": LOOKS_NAMES_UP,
    "other_end": OTHER_END,
    "two_token_end": TWO_TOKEN_END,
}

SPECIAL = (
    "<|endoftext|>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|end|>", "<|return|>", "<|start_header_id|>",
    "<|end_header_id|>", "<|eot_id|>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
    "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
)  # fmt: skip
ADDED = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
"""Matched whole, but not special, as in Qwen3's tokenizer."""

LOOK_ALIKES = (*SPECIAL, "<tool_response>", "</tool_response>", "<tool_call>")

_TEXT = [
    "You are helpful. The user asks, the assistant calls a tool with a name and arguments.",
    '<tool_call>\n{"name": "lookup", "arguments": {"word": "hello"}}\n</tool_call>\n\nsystem\nuser\nassistant\n',
    "hello world  and  more   spaces\n\n\nnew lines\n - one\n - two [INST] <s> im_start im_end",
]


@functools.cache
def _backend(kind: str) -> str:
    trainer = trainers.BpeTrainer(
        vocab_size=420 if kind == "bytes" else 260,
        special_tokens=["<unk>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if kind == "bytes" else [],
        show_progress=False,
    )
    if kind == "bytes":
        backend = Tokenizer(models.BPE())
        backend.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(r" ?\w+| ?[^\s\w]+|\s*\n+|\s+"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ])  # fmt: skip
        backend.decoder = decoders.ByteLevel()
    else:
        # As in Llama-2's and Mistral's: a space is put before the first piece of a text.
        backend = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
        backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
        backend.decoder = decoders.Sequence([
            decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
        ])  # fmt: skip
        trainer.special_tokens = [
            AddedToken("<unk>"),
            *(AddedToken(f"<0x{byte:02X}>") for byte in range(256)),
        ]
        trainer.vocab_size = 700
    backend.train_from_iterator(_TEXT, trainer)
    return str(backend.to_str())


def tokenizer_for(
    template: str, *, kind: str = "bytes", eos: str = "<|endoftext|>"
) -> PreTrainedTokenizerBase:
    """A small tokenizer with the template: byte-level BPE ("bytes"), or with a prefix space ("metaspace")."""
    backend = Tokenizer.from_str(_backend(kind))
    backend.add_special_tokens([AddedToken(token, normalized=False) for token in SPECIAL])
    backend.add_tokens([AddedToken(token, normalized=False) for token in ADDED])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=eos, bos_token="<s>")
    tokenizer.chat_template = template
    return tokenizer


@functools.cache
def zoo_tokenizer(name: str, kind: str = "bytes") -> PreTrainedTokenizerBase:
    eos = {"mistral": "</s>", "llama3": "<|eot_id|>", "other_end": "<|return|>"}.get(name, "<|endoftext|>")
    return tokenizer_for(TEMPLATES[name], kind=kind, eos=eos)


LOOKUP = ToolSpec(
    function=FunctionSpec(
        name="lookup",
        description="Looks a word up.",
        parameters={"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
    )
)


class ScriptedEngine:
    """Answers each request with the next ids of a script, or with what a function makes of the request."""

    def __init__(
        self,
        script: Iterable[Iterable[int]] | Callable[[GenerateRequest], Iterable[int]],
        *,
        max_context: int = 1_000_000,
    ) -> None:
        self._answer = script if callable(script) else _one_by_one(script)
        self.max_context = max_context
        self.policy_version = 0
        self.requests: list[GenerateRequest] = []
        self.generations: list[Generation] = []
        self.released: list[str] = []
        self.closed = 0

    async def generate(self, request: GenerateRequest) -> Generation:
        ids = tuple(self._answer(request))[: request.sampling.max_tokens]
        self.requests.append(request)
        stopped = bool(ids) and ids[-1] in request.stop_ids
        logprobs = tuple(-0.001 * (number + 1) for number in range(len(ids)))
        self.generations.append(
            Generation(ids, logprobs, "stop" if stopped else "length", self.policy_version)
        )
        return self.generations[-1]

    async def release(self, session: str) -> None:
        self.released.append(session)

    async def update_weights(self, weights: Any, *, policy_version: int) -> None:
        self.policy_version = policy_version

    async def close(self) -> None:
        self.closed += 1


def _one_by_one(script: Iterable[Iterable[int]]) -> Callable[[GenerateRequest], Iterable[int]]:
    answers = iter(list(script))
    return lambda _request: next(answers)


def episode_start(tools: tuple[ToolSpec, ...] = (), *, sample: int = 0) -> EpisodeStart:
    return EpisodeStart("turngym/Test-v0", tools, NoiseKey(run_seed=1, step=2, task="t", sample=sample))
