"""The vocabulary of the tiny model: single characters, bytes for everything else, and pieces of common text.

A unigram tokenizer cuts text into the fewest pieces that the vocabulary allows, so a list of pieces is all
that has to be known: nothing is trained. Episodes are short because the scaffolding of a tool call is a
handful of pieces. No piece holds two digits, so numbers are always spelt digit by digit, which is what lets a
small model copy and compare them.
"""

from __future__ import annotations

PAD = "<|endoftext|>"
TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"
SPECIAL_TOKENS = (PAD, TURN_START, TURN_END)

# What follows TURN_START. They are matched before the pieces, so a turn's header never merges with its
# content: that is what makes the ids of a conversation an exact prefix of the ids of its continuation.
ROLE_HEADERS = ("system\n", "user\n", "assistant\n", "tool\n")

CHARACTERS = "\t\n" + "".join(map(chr, range(0x20, 0x7F)))

# Characters outside of CHARACTERS are spelt in UTF-8, whose bytes these are: control characters, continuation
# bytes, and lead bytes (0xC0, 0xC1 and 0xF5 … 0xFF never occur).
BYTES = tuple(
    value
    for value in (*range(0x20), 0x7F, *range(0x80, 0xC0), *range(0xC2, 0xF5))
    if value not in (0x09, 0x0A)
)

TOOL_CALL_PIECES = (
    '<tool_call>\n{"name": "', '", "arguments": {', '", "arguments": {}}\n</tool_call>', "}}\n</tool_call>",
    '"}}\n</tool_call>', "]}}\n</tool_call>", '"]}}\n</tool_call>', "<tool_response>\n",
    "\n</tool_response>", "<think>\n", "\n</think>\n\n", "# Tools\n", '": ', '": "', '": [', '": {', '", "',
    ', "', '"}', '{"', '["', '"]', "}}", "true", "false", "null",
)  # fmt: skip

# Common argument names, with the quote that opens a string where the value is usually one.
ARGUMENTS = (
    '"a": ', '"b": ', '"x": ', '"y": ', '"n": ', '"guess": ', '"op": "', '"text": "', '"query": "',
    '"code": "', '"answer": ',
)  # fmt: skip
BEFORE_ARGUMENT = ('", "arguments": {', ", ", '", ')

SIGNATURE_PIECES = (": number", ": integer", ": string", ": boolean", ": array", "):", "()")

ENGLISH_PIECES = (
    "Compute ", "What is ", "Guess ", "Find ", "Use ", "Then ", "Give ", "give ", "Answer ", "calculator",
    "search", "op", "number", "guess", "answer", "result", "error", "Error: ", "higher", "lower", "correct",
    "wrong", "too ", "tool", "call", "step", "The ", "the ", "You ", "you ", "I ", "It ", "it ", "is ",
    "are ", "was ", "be ", "to ", "of ", "and ", "or ", "not ", "in ", "on ", "at ", "for ", "with ",
    "from ", "by ", "as ", "an ", "a ", "this ", "that ", "use ", "one ", "each ", "all ", "then ", "your ",
    "my ", "no ", "can ", "only ", "first ", "last ", "between ", "times ", "plus ", "minus ", "th", "he",
    "in", "er", "an", "re", "on", "at", "en", "nd", "ti", "es", "or", "te", "ed", "is", "it", "al", "ar",
    "st", "to", "nt", "ng", "se", "ha", "as", "ou", "io", "le", "ve", "co", "me", "de", "hi", "ri", "ro",
    "ic", "ne", "ea", "ra", "ce", "li", "ch", "ll", "be", "ma", "si", "om", "ur", "us", "un", "pr", "ec",
    "el", "la", "et", "ct", "ut", "il", "ol", "ly", "lo", "sh", "ge", "em", "am", "ac", "ss", "ee", "ir",
    "id", "ow", "ad", "im", "no", "po", "tr", "mo", "so", "sp", "ing", "ion", "ent", "and", "the", "for",
    "tion", "ment", "able", "ver", "ter", "con", "com", "pro", "per", "ate", "ing ", "ed ", "er ", "s ",
    "e ", "t ", "d ", "y ", "n ", "r ", ", ", ". ", ": ", "? ", " (", ") ", " + ", " - ", " * ", " / ",
    " = ", ") + ", ") - ", ") * ", ".\n", ":\n", "\n\n", "  ", "    ", "->",
)  # fmt: skip


def pieces() -> list[str]:
    """Every multi-character piece, once, in a fixed order."""
    arguments = [before + argument for argument in ARGUMENTS for before in BEFORE_ARGUMENT]
    return list(dict.fromkeys((*TOOL_CALL_PIECES, *arguments, *SIGNATURE_PIECES, *ENGLISH_PIECES)))
