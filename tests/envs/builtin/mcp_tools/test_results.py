from types import SimpleNamespace

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from turngym.envs.builtin.mcp_tools.results import MOST_CHARACTERS, Answer, answer_of, text_of


def text(words):
    return TextContent(type="text", text=words)


def test_blocks_stand_below_each_other_and_what_is_no_text_is_named():
    blocks = [
        text("one"),
        ImageContent(type="image", data="MTIzNDU=", mime_type="image/png"),
        AudioContent(type="audio", data="!", mime_type="audio/wav"),
        ResourceLink(type="resource_link", name="n", title="Manual", uri="file:///m", mime_type="text/plain"),
        ResourceLink(type="resource_link", name="n", uri="file:///m"),
        EmbeddedResource(type="resource", resource=TextResourceContents(uri="file:///a", text="inside")),
        EmbeddedResource(type="resource", resource=BlobResourceContents(uri="file:///b", blob="MTIz")),
        SimpleNamespace(type="hologram"),
    ]
    assert text_of(blocks).split("\n") == [
        "one", "[image: image/png, 5 bytes]", "[audio: audio/wav, unreadable]", "[Manual, text/plain: file:///m]",
        "[n: file:///m]", "inside", "[data, 3 bytes: file:///b]", "[hologram]",
    ]  # fmt: skip


def test_structured_content_is_shown_once():
    assert text_of([], {"ü": [1, None]}) == '{"ü": [1, null]}'
    assert text_of([text('{"a": 1}')], {"a": 1}) == '{"a": 1}'
    image = ImageContent(type="image", data="", mime_type="image/png")
    assert text_of([image], 7) == "[image: image/png, 0 bytes]\n7"
    assert text_of([]) == "(nothing)"
    assert text_of([text("")]) == "(nothing)"


def test_long_results_lose_their_middle():
    shown = text_of([text("a" * MOST_CHARACTERS + "b" * 5)])
    assert len(shown) < MOST_CHARACTERS + 50
    assert "… 5 characters left out …" in shown
    assert shown.endswith("bbbbb")


def test_errors_say_so():
    assert answer_of(CallToolResult(content=[text("no such shelf")], is_error=True)) == Answer(
        "Error: no such shelf", is_error=True
    )
    assert (
        answer_of(CallToolResult(content=[text("Error executing x")], is_error=True)).text
        == "Error executing x"
    )
    assert answer_of(CallToolResult(content=[text("fine")])) == Answer("fine")
