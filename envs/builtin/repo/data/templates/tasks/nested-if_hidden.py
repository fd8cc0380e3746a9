import unittest

from templates import render
from templates.parser import TemplateError

SOURCE = "{% if a %}{% if b %}ab{% else %}a{% end %}{% else %}{% if b %}b{% else %}none{% end %}{% end %}."


class TestNested(unittest.TestCase):
    def test_all_four(self):
        found = [render(SOURCE, {"a": a, "b": b}) for a in (1, 0) for b in (1, 0)]
        self.assertEqual(found, ["ab.", "a.", "b.", "none."])

    def test_an_if_without_end(self):
        for source in ("{% if a %}x", "{% if a %}x{% else %}y"):
            with self.assertRaises(TemplateError):
                render(source, {})

    def test_an_end_too_many(self):
        with self.assertRaises(TemplateError):
            render("{% if a %}x{% end %}{% end %}", {})

    def test_if_in_a_loop(self):
        source = "{% for x in xs %}{% if x %}1{% else %}0{% end %}{% end %}"
        self.assertEqual(render(source, {"xs": [1, 0, 1]}), "101")
