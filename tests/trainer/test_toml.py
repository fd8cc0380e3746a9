from __future__ import annotations

import codecs

import pytest

from turngym.trainer.errors import ConfigError
from turngym.trainer.toml import MOST_LEVELS, is_too_deep, read_toml, read_value, shown, write_toml


def test_a_byte_order_mark_of_utf_8_is_nothing(tmp_path):
    (tmp_path / "run.toml").write_bytes(codecs.BOM_UTF8 + "name = 'é'\r\n".encode())
    assert read_toml(tmp_path / "run.toml") == {"name": "é"}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("steps = 3".encode("utf-16"), "UTF-16"),
        ("steps = 3".encode("utf-16-be"), "UTF-16"),
        ("steps = 3".encode("utf-32"), "UTF-16 or no text"),
        (b"SQLite format 3\0\x10", "no text at all"),
        ("name = 'é'".encode("latin-1"), r"not in UTF-8 \(byte 8\): save it as UTF-8"),
        (b"steps = = 3", "is not TOML"),
        (b"steps = " + b"9" * 5000, "is not TOML"),
        (b"x = " + b"[" * 5000 + b"]" * 5000, "nested too deeply"),
    ],
)
def test_a_file_that_cannot_be_read_says_what_it_is(tmp_path, content, words):
    (tmp_path / "run.toml").write_bytes(content)
    with pytest.raises(ConfigError, match=words) as caught:
        read_toml(tmp_path / "run.toml")
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "run.toml") in str(caught.value)


def test_no_file_or_a_folder(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        read_toml(tmp_path / "absent.toml")
    with pytest.raises(ConfigError, match=r"is a folder: name the TOML file itself$"):
        read_toml(tmp_path)
    (tmp_path / "run.toml").touch()
    with pytest.raises(ConfigError, match=r"is a folder.*such as .*run\.toml"):
        read_toml(tmp_path)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3),
        ("true", True),
        ("[1, 2]", [1, 2]),
        ("'a b'", "a b"),
        ("{a = 1}", {"a": 1}),
        ("'''two\nlines'''", "two\nlines"),
        ("some/folder", "some/folder"),
        ("two\nlines", "two\nlines"),
        ("", ""),
        (" a ", "a"),
        ("[" * 30 + "]" * 20, "[" * 30 + "]" * 20),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_a_value_is_toml_or_else_text(text, value):
    assert read_value(text) == value


@pytest.mark.parametrize("text", ["1\nseed = 5", "1\n[optim]\nlr = 3", "[" * 5000 + "]" * 5000])
def test_one_value_is_one(text):
    with pytest.raises(ValueError, match=r"more than one value|nested too deeply"):
        read_value(text)


def test_depth():
    def nested(levels):
        return {"a": nested(levels - 1)} if levels % 2 else [nested(levels - 1)] if levels else 1

    assert not is_too_deep(nested(MOST_LEVELS))
    assert is_too_deep(nested(MOST_LEVELS + 2))
    loop: list[object] = []
    loop.append(loop)
    assert is_too_deep(loop)


def test_what_is_shown_of_a_value_fits_into_a_line():
    assert shown("plain") == "plain"
    assert shown("two\nlines") == r"'two\nlines'"
    assert shown("\x1b[31m") == r"'\x1b[31m'"
    assert len(shown("x" * 1000)) < 100
    assert shown(16**5000) == "a number of thousands of digits"


def test_what_is_written_reads_back(tmp_path):
    data = {"a": 1, "s": {"x": [True, "ü"], "odd": {"a key": 1.5}}, "b": "two\nlines"}
    (tmp_path / "out.toml").write_text(write_toml(data), encoding="utf-8")
    assert read_toml(tmp_path / "out.toml") == data
