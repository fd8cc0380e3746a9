import unittest

from templates import render


class TestTemplates(unittest.TestCase):
    def test_values(self):
        self.assertEqual(render("Hello {{ user.name }}!", {"user": {"name": "Ann"}}), "Hello Ann!")

    def test_loop(self):
        self.assertEqual(render("{% for x in xs %}{{ loop.index }}{{ x }} {% end %}", {"xs": "ab"}), "1a 2b ")

    def test_if(self):
        self.assertEqual(render("{% if x %}yes{% else %}no{% end %}", {}), "no")


if __name__ == "__main__":
    unittest.main()
