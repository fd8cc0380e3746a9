import unittest

from templates import render


class TestEscape(unittest.TestCase):
    def test_signs(self):
        self.assertEqual(render("{{ x }}", {"x": '<a href="b">'}), "&lt;a href=&quot;b&quot;&gt;")

    def test_ampersand(self):
        self.assertEqual(render("{{ x }}", {"x": "a & b &lt;"}), "a &amp; b &amp;lt;")

    def test_safe(self):
        self.assertEqual(render("{{ x|safe }}", {"x": "<b>&"}), "<b>&")

    def test_text_is_left_alone(self):
        self.assertEqual(render("<p>{{ x }}</p>", {"x": 1}), "<p>1</p>")
