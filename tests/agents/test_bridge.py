"""The bridge on chat templates of every kind: exact extensions where they are allowed, else none."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from turngym.agents.bridge import TemplateBridge
from turngym.agents.errors import TemplateError
from turngym.agents.templates.canned import CONVERSATIONS, TOOL, try_extension
from turngym.envs.messages import FunctionCall, Message, ToolCall, assistant, system, tool_result, user

from .zoo import LOOK_ALIKES, LOOKUP, SPECIAL, TEMPLATES, tokenizer_for, zoo_tokenizer

EXTENDS = ("extends",) * 7
NEVER = ("new segment",) * 7
VERDICTS = {
    "drops_thinking": (*("extends",) * 5, "new segment", "extends"),
    "moves_tools": (*("extends",) * 4, "new segment", *("extends",) * 2),
    "opens_thinking": NEVER,
    "rewrites": NEVER,
    "other_end": NEVER,
    "plain_text": ("no end token",) * 7,
}

CALL = ToolCall.of("lookup", {"word": "x"}, id="call_0_0")


@functools.cache
def bridge_for(name: str, kind: str = "bytes") -> TemplateBridge:
    return TemplateBridge(zoo_tokenizer(name, kind))


def decode(name: str, ids: Sequence[int]) -> str:
    return str(zoo_tokenizer(name).decode(list(ids), skip_special_tokens=False))


@pytest.mark.parametrize("kind", ["bytes", "metaspace"])
@pytest.mark.parametrize("name", [name for name in TEMPLATES if name != "plain_text"])
def test_every_template_extends_exactly_or_not_at_all(name: str, kind: str) -> None:
    bridge = bridge_for(name, kind)
    verdicts = tuple(try_extension(bridge, canned) for canned in CONVERSATIONS)
    assert verdicts == VERDICTS.get(name, EXTENDS)
    assert bridge.describe()["renderer"] == bridge.name == "bridge"


@pytest.mark.parametrize("kind", ["bytes", "metaspace"])
def test_a_template_without_control_tokens_extends_as_text(kind: str) -> None:
    bridge = bridge_for("plain_text", kind)
    assert {try_extension(bridge, canned) for canned in CONVERSATIONS} == {"no end token"}
    history = (user("Hi"), assistant("Ho"))
    prompt = bridge.render(history[:1], ())
    ids = bridge.extend(prompt, (user("And?"),), (), history)
    assert ids is not None
    text = zoo_tokenizer("plain_text", kind).decode([*prompt, *ids])
    assert text.lstrip() == "User: Hi\n\nAssistant:\n\nUser: And?\n\nAssistant:"


@pytest.mark.parametrize("name", ["chatml_tools", "llama3", "drops_thinking", "mistral", "two_token_end"])
def test_an_end_of_turn_that_was_not_sampled_is_supplied_and_one_that_was_is_not_repeated(name: str) -> None:
    bridge = bridge_for(name)
    tokenizer = zoo_tokenizer(name)
    history = (user("Hi"), assistant("Ho"))
    end = {"llama3": "<|eot_id|>", "mistral": "</s>", "two_token_end": "<|end|><|im_end|>"}.get(
        name, "<|im_end|>"
    )
    end_ids = tokenizer.encode(end, add_special_tokens=False)
    prompt = bridge.render(history[:1], ())
    action = tokenizer.encode("Ho", add_special_tokens=False)
    whole = bridge.render((*history, user("And?")), ())
    for sampled in range(len(end_ids) + 1):
        before = (*prompt, *action, *end_ids[:sampled])
        extension = bridge.extend(before, (user("And?"),), (), history)
        assert extension is not None
        if name == "mistral":  # its template writes a space before the reply that nobody sampled
            assert decode(name, (*before, *extension)) == decode(name, whole).replace("] Ho", "]Ho")
        else:
            assert (*before, *extension) == whole


def test_another_stop_token_is_followed_by_the_templates_own_end_of_turn() -> None:
    bridge = bridge_for("chatml_tools")
    tokenizer = zoo_tokenizer("chatml_tools")
    eos = tokenizer.convert_tokens_to_ids("<|endoftext|>")
    assert [tokenizer.decode([id]) for id in bridge.stop_ids] == ["<|im_end|>", "<|endoftext|>"]
    extension = bridge.extend((5, eos), (user("And?"),), (), (user("Hi"), assistant("Ho")))
    assert extension is not None
    assert decode("chatml_tools", extension).startswith("<|im_end|>\n<|im_start|>user\nAnd?<|im_end|>")


def test_stop_ids_that_are_given_are_added() -> None:
    tokenizer = zoo_tokenizer("chatml_tools")
    extra = tokenizer.convert_tokens_to_ids("<|return|>")
    bridge = TemplateBridge(tokenizer, stop_ids=[extra, tokenizer.eos_token_id])
    assert [tokenizer.decode([id]) for id in bridge.stop_ids] == ["<|im_end|>", "<|endoftext|>", "<|return|>"]
    assert bridge.parse([*tokenizer.encode("Ho"), extra], ()).content == "Ho"


@pytest.mark.parametrize("name", [name for name in TEMPLATES if name not in ("parts", "mistral")])
def test_without_look_alikes_the_ids_are_those_of_the_chat_template(name: str) -> None:
    """Talk that every template takes as it is; what the bridge adds for the others is tested below."""
    tokenizer = zoo_tokenizer(name)
    bridge = TemplateBridge(tokenizer)
    messages = [user("Grüße,\n\n 你好 🙂 \t"), assistant(" - one\n"), user("")]
    wires = [{"role": message.role, "content": message.text} for message in messages]
    expected = tokenizer.apply_chat_template(wires, add_generation_prompt=True, return_dict=False)
    assert list(bridge.render(messages, ())) == expected


@pytest.mark.parametrize("name", ["chatml_tools", "drops_thinking", "raises_on_null", "moves_tools"])
def test_native_tools_are_rendered_by_the_template(name: str) -> None:
    tokenizer = zoo_tokenizer(name)
    bridge = TemplateBridge(tokenizer)
    assert bridge.describe()["tools"] == "by the template"
    messages = [system("S"), user("U"), assistant(None, CALL), tool_result(CALL, "R")]
    wires: list[dict[str, Any]] = [{**message.wire(), "content": message.text} for message in messages]
    wires[2]["tool_calls"][0]["function"]["arguments"] = {"word": "x"}
    expected = tokenizer.apply_chat_template(
        wires, tools=[LOOKUP.wire()], add_generation_prompt=True, return_dict=False
    )
    assert list(bridge.render(messages, [LOOKUP])) == expected


def test_arguments_go_in_as_text_where_the_template_wants_text() -> None:
    bridge = bridge_for("text_arguments")
    call = ToolCall.of("lookup", '{"word":  "x"}', id="call_0_0")
    text = decode(
        "text_arguments", bridge.render([user("U"), assistant(None, call), tool_result(call, "R")], [LOOKUP])
    )
    assert '<tool_call>\n{"name": "lookup", "arguments": {"word":  "x"}}\n</tool_call><|im_end|>' in text
    assert bridge.describe()["tools"] == "by the template"


@pytest.mark.parametrize("name", ["ignores_tools", "llama3", "mistral", "no_system", "parts"])
def test_a_template_that_ignores_tools_gets_them_in_the_system_message(name: str) -> None:
    bridge = bridge_for(name)
    assert bridge.describe()["tools"] == "in the system message"
    talk = [
        system("Be brief."),
        user("U"),
        assistant("Looking.", CALL),
        tool_result(CALL, "R"),
        tool_result(CALL, "Q"),
    ]
    text = decode(name, bridge.render(talk, [LOOKUP]))
    assert text.index("Be brief.") < text.index(json.dumps(LOOKUP.wire()["function"])) < text.index("U")
    assert 'Looking.\n<tool_call>\n{"name": "lookup", "arguments": {"word": "x"}}\n</tool_call>' in text
    assert "<tool_response>\nR\n</tool_response>\n<tool_response>\nQ\n</tool_response>" in text
    assert "<tools>" not in decode(name, bridge.render(talk, []))


def test_a_template_without_a_system_role_gets_its_text_in_front_of_the_users() -> None:
    text = decode(
        "no_system", bridge_for("no_system").render([system("Be brief."), user("U"), user("V")], ())
    )
    assert text == "<s><|im_start|>user\nBe brief.\n\nU\n\nV<|im_end|>\n<|im_start|>model\n"


def test_an_assistant_without_content_is_rendered_with_empty_text() -> None:
    bridge = bridge_for("raises_on_null")
    text = decode("raises_on_null", bridge.render([user("U"), Message(role="assistant"), user("V")], ()))
    assert "<|im_start|>assistant\n<|im_end|>" in text
    with pytest.raises(Exception, match="content must be text"):
        zoo_tokenizer("raises_on_null").apply_chat_template(
            [{"role": "user", "content": None}], tokenize=False
        )


def test_a_malformed_call_is_shown_again_as_it_was_written() -> None:
    raw = '<tool_call>\n{"name": "lookup", "arg\n</tool_call>'
    broken = ToolCall(id="call_0_0", function=FunctionCall(name="", arguments=raw), parse_error="broken")
    for name in ("chatml_tools", "ignores_tools", "strict_results"):
        talk = [user("U"), assistant("So:", broken), tool_result(broken, "not a call"), user("V")]
        text = decode(name, bridge_for(name).render(talk, [LOOKUP]))
        assert f"<|im_start|>assistant\nSo:\n{raw}<|im_end|>" in text
        assert "<tool_response>\nnot a call\n</tool_response>" in text


def test_thinking_goes_into_its_own_field_or_into_the_content() -> None:
    talk = [user("U"), Message(role="assistant", content="Ho", reasoning_content="Hm."), user("V")]
    assert "<think>\nHm.\n</think>\n\nHo" in decode(
        "keeps_thinking", bridge_for("keeps_thinking").render(talk, ())
    )
    assert "Hm." not in decode("drops_thinking", bridge_for("drops_thinking").render(talk, ()))
    assert "<think>\nHm.\n</think>\n\nHo" in decode(
        "chatml_tools", bridge_for("chatml_tools").render(talk, ())
    )


def test_earlier_thinking_starts_a_segment_only_where_the_template_drops_it() -> None:
    silent = (user("U"), assistant("Ho"))
    thinking = (user("U"), Message(role="assistant", content="Ho", reasoning_content="Hm."))
    for name, extends in (("drops_thinking", False), ("keeps_thinking", True), ("chatml_tools", True)):
        bridge = bridge_for(name)
        previous = (*bridge.render(silent[:1], ()), 5, bridge.stop_ids[0])
        assert bridge.extend(previous, (user("V"),), (), silent) is not None
        assert (bridge.extend(previous, (user("V"),), (), thinking) is not None) is extends


def test_a_prompt_that_opens_the_thinking_is_known_when_the_reply_is_parsed() -> None:
    tokenizer = zoo_tokenizer("opens_thinking")
    ids = tokenizer.encode("Hm.\n</think>\n\nHo<|im_end|>", add_special_tokens=False)
    message = bridge_for("opens_thinking").parse(ids, ())
    assert (message.reasoning_content, message.content) == ("Hm.", "Ho")


def test_an_extension_may_depend_on_the_whole_conversation_or_on_the_reply() -> None:
    history = (user("U"), assistant("Ho"), user("V"), assistant(None, CALL))
    answer = (tool_result(CALL, "R"),)
    for name, expected in (("numbers", "user 6\n<tool_response>\nR"), ("looks_names_up", "lookup says R")):
        extension = bridge_for(name).extend((5,), answer, [LOOKUP], history)
        assert extension is not None
        assert expected in decode(name, extension)


def test_no_new_messages_extend_to_the_next_prompt_where_the_template_allows_it() -> None:
    history = (user("U"), assistant("Ho"))
    extension = bridge_for("chatml_tools").extend((5,), (), (), history)
    assert extension is not None
    assert decode("chatml_tools", extension) == "<|im_end|>\n<|im_start|>assistant\n"


def test_what_cannot_follow_a_reply_is_not_extended() -> None:
    bridge = bridge_for("chatml_tools")
    assert bridge.extend((5,), (assistant("me again"),), (), (user("U"), assistant("Ho"))) is None
    assert bridge.extend((5,), (user("V"),), (), (user("U"),)) is None
    assert bridge.extend((5,), (user("V"),), (), ()) is None
    strict = bridge_for("no_system")
    with pytest.raises(TemplateError, match=r"user, assistant, assistant.*roles must alternate"):
        strict.render((user("U"), assistant("Ho"), assistant("Hu")), ())


@pytest.mark.parametrize("kind", ["bytes", "metaspace"])
@pytest.mark.parametrize("name", [name for name in TEMPLATES if name != "plain_text"])
def test_control_tokens_that_somebody_types_stay_text(name: str, kind: str) -> None:
    tokenizer = zoo_tokenizer(name, kind)
    bridge = TemplateBridge(tokenizer)
    controls = {
        tokenizer.convert_tokens_to_ids(token) for token in (*SPECIAL, "<tool_response>", "</tool_response>")
    }

    def written(ids: Sequence[int]) -> list[int]:
        return [id for id in ids if id in controls]

    rng = random.Random(f"{name}{kind}")
    for _ in range(5):
        typed = "".join(rng.choice([*LOOK_ALIKES, " ", "a", "\n\n", "🙂"]) for _ in range(12))
        evil = (system(f"s{typed}s"), user(f"u{typed}u"), assistant("Ho", CALL))
        tame = (system("ss"), user("uu"), assistant("Ho", CALL))
        new_evil: tuple[Message, ...] = (tool_result(CALL, f"r{typed}r"),)
        new_tame: tuple[Message, ...] = (tool_result(CALL, "rr"),)
        if name in ("moves_tools", "chatml_tools"):
            new_evil, new_tame = (*new_evil, user(f"v{typed}v")), (*new_tame, user("vv"))
        for one, other in (((*evil, *new_evil), (*tame, *new_tame)), (evil[:2], tame[:2])):
            ids = bridge.render(one, [LOOKUP])
            assert written(ids) == written(bridge.render(other, [LOOKUP]))
            assert f"u{typed}u" in tokenizer.decode(list(ids), skip_special_tokens=False)
        before = bridge.render(evil[:2], [LOOKUP])
        extension = bridge.extend(before, new_evil, [LOOKUP], evil)
        expected = bridge.extend(before, new_tame, [LOOKUP], tame)
        assert (extension is None) == (expected is None)
        if extension is not None and expected is not None:
            assert written(extension) == written(expected)
            assert f"r{typed}r" in tokenizer.decode(list(extension), skip_special_tokens=False)


def test_a_look_alike_in_an_assistants_text_and_arguments_stays_text_but_its_tags_do_not() -> None:
    tokenizer = zoo_tokenizer("keeps_thinking")
    call = ToolCall.of("lookup", '{"word": "<|im_end|> \\u003c|im_end|\\u003e"}', id="call_0_0")
    for name in ("keeps_thinking", "chatml_tools"):
        ids = bridge_for(name).render(
            [user("<|im_end|>"), assistant("a<|im_end|>b", call), user("x")], [LOOKUP]
        )
        end = tokenizer.convert_tokens_to_ids("<|im_end|>")
        tag = tokenizer.convert_tokens_to_ids("<tool_call>")
        assert list(ids).count(end) == 4
        assert tag in ids


def test_texts_that_use_the_marks_are_rendered_all_the_same() -> None:
    bridge = bridge_for("chatml_tools")
    text = "\ufdd0\ufdd1<|im_end|>\ufdd2 \\ufdd3"
    assert text in decode("chatml_tools", bridge.render([user(text)], ()))
    every = "".join(map(chr, range(0xFDD0, 0xFDF0)))
    assert every in decode("chatml_tools", bridge.render([user(every)], ()))
    with pytest.raises(ValueError, match="noncharacters"):
        bridge.render([user(every + "<|im_end|>")], ())


def test_special_names_and_descriptions_of_tools_stay_text() -> None:
    evil = TOOL.model_copy(
        update={"function": TOOL.function.model_copy(update={"description": "<|im_end|>"})}
    )
    for name in ("chatml_tools", "ignores_tools"):
        end = zoo_tokenizer(name).convert_tokens_to_ids("<|im_end|>")
        assert list(bridge_for(name).render([user("U")], [evil])).count(end) == 2


def test_an_unusable_template_says_what_to_do() -> None:
    with pytest.raises(TemplateError, match=r"no chat template: set tokenizer.chat_template"):
        TemplateBridge(tokenizer_for(""))
    with pytest.raises(
        TemplateError, match=r"cannot render a conversation of \[user\]: never.*another chat_template"
    ):
        TemplateBridge(tokenizer_for("{{- raise_exception('never') }}"))
    with pytest.raises(TemplateError, match=r"does not show a user's message.*'nothing'"):
        TemplateBridge(tokenizer_for("nothing"))
    silent = tokenizer_for(TEMPLATES["plain_text"])
    silent.eos_token = None
    with pytest.raises(TemplateError, match=r"nothing ends a turn.*Set tokenizer.eos_token"):
        TemplateBridge(silent)


def test_a_mapping_of_templates_is_read() -> None:
    tokenizer = tokenizer_for(TEMPLATES["chatml_tools"])
    tokenizer.chat_template = {"default": TEMPLATES["chatml_tools"], "tool_use": TEMPLATES["chatml_tools"]}
    assert TemplateBridge(tokenizer).render([user("U")], [LOOKUP]) == bridge_for("chatml_tools").render(
        [user("U")], [LOOKUP]
    )


def test_extensions_are_remembered_without_mixing_conversations_up() -> None:
    bridge = bridge_for("chatml_tools")
    history = (user("U"), assistant(None, CALL))
    previous = (*bridge.render(history[:1], [LOOKUP]), 5, bridge.stop_ids[0])
    answers = [tool_result(CALL, text) for text in ("a", "b", "a")]
    found = [bridge.extend(previous, (answer,), [LOOKUP], history) for answer in answers]
    assert found[0] == found[2] != found[1]
    cut = bridge.extend(previous[:-1], (answers[0],), [LOOKUP], history)
    assert cut is not None
    assert cut[1:] == found[0]
