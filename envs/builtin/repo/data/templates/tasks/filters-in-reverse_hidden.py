import unittest

from templates import render


class TestOrder(unittest.TestCase):
    def test_join_then_upper(self):
        self.assertEqual(render("{{ xs|join:-|upper }}", {"xs": ["a", "b"]}), "A-B")

    def test_default_then_upper(self):
        self.assertEqual(render("{{ x|default:none|upper }}", {}), "NONE")

    def test_trim_then_default(self):
        self.assertEqual(render("{{ x|trim|default:empty }}", {"x": "  "}), "empty")

    def test_safe_anywhere(self):
        self.assertEqual(render("{{ x|safe|lower }}", {"x": "<B>"}), "<b>")
