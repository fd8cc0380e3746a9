from __future__ import annotations

import inspect

from turngym.envs import errors


def test_one_root_and_a_standard_class_each():
    classes = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if cls is not errors.EnvError]
    for cls in classes:
        assert issubclass(cls, errors.EnvError)
        standard = [base for base in cls.__mro__ if base.__module__ == "builtins"]
        assert standard[0] is not Exception, cls


def test_the_tree_in_the_docstring_is_the_tree():
    for name, _ in inspect.getmembers(errors, inspect.isclass):
        assert name in (errors.__doc__ or "")


def test_key_errors_print_as_text():
    for cls in (errors.UnknownEnv, errors.UnknownTask, errors.UnknownPolicy):
        assert str(cls("no 'x'")) == "no 'x'"
