"""Every public name is documented, and the examples in docstrings run as printed."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import poise

EXTRAS = ("poise.domains.mujoco.gym",)  # it needs an extra at its import


def modules():
    found = pkgutil.walk_packages(poise.__path__, "poise.")
    return [module.name for module in found if module.name not in (*EXTRAS, "poise.cli.__main__")]


def examples(name: str) -> list[doctest.DocTest]:
    module = importlib.import_module(name)
    return [test for test in doctest.DocTestFinder(exclude_empty=True).find(module, name) if test.examples]


@pytest.mark.parametrize("name", [name for name in modules() if examples(name)])
def test_examples_in_docstrings_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for test in examples(name):
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
        assert runner.run(test).failed == 0, test.name


PUBLIC = {name: getattr(poise, name) for name in poise.__all__}
CALLABLE = {name: value for name, value in PUBLIC.items() if callable(value) and value is not poise.PoiseError}


@pytest.mark.parametrize("name", CALLABLE)
def test_every_public_name_has_a_docstring_and_typed_parameters(name):
    value = CALLABLE[name]
    assert inspect.getdoc(value)
    for parameter in inspect.signature(value).parameters.values():
        assert parameter.annotation is not inspect.Parameter.empty, parameter


@pytest.mark.parametrize("name", [name for name, value in CALLABLE.items() if inspect.isclass(value)])
def test_every_public_class_has_an_example(name):
    assert ">>>" in (inspect.getdoc(CALLABLE[name]) or "")


@pytest.mark.parametrize("name", [name for name, value in CALLABLE.items() if inspect.isfunction(value)])
def test_every_public_function_documents_arguments_results_errors_and_an_example(name):
    text = inspect.getdoc(CALLABLE[name]) or ""
    returns = inspect.signature(CALLABLE[name]).return_annotation not in (None, "None")
    for section in ("Args:", "Raises:", "Examples:", *(["Returns:"] if returns else [])):
        assert section in text, section
