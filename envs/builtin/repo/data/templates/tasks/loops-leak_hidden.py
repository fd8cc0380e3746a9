import unittest

from templates import render


class TestScope(unittest.TestCase):
    def test_the_outer_value_comes_back(self):
        source = "{% for x in xs %}{{ x }}{% end %}{{ x }}"
        self.assertEqual(render(source, {"xs": [1, 2], "x": "o"}), "12o")
        self.assertEqual(render(source, {"xs": [1, 2]}), "12")

    def test_nested_counters(self):
        source = "{% for x in xs %}{% for y in ys %}{{ loop.index }}{% end %}-{{ loop.index }} {% end %}"
        self.assertEqual(render(source, {"xs": "ab", "ys": "cd"}), "12-1 12-2 ")

    def test_the_caller_s_values_stay(self):
        values = {"xs": [1]}
        render("{% for x in xs %}{% end %}", values)
        self.assertEqual(values, {"xs": [1]})
