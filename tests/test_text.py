"""Strings are found by name, and no sentence loses a number."""

import pytest

from mha.text import say, template


def test_say_fills_placeholders():
    assert say("figures.names.query", i=5) == "query 5"


def test_template_gives_the_raw_string_or_table():
    assert template("figures.names.query") == "query {i}"
    assert template("figures.axes")["key"] == "key j"


@pytest.mark.parametrize("values", [{}, {"i": 5, "j": 7}, {"j": 7}])
def test_values_and_placeholders_must_agree(values):
    with pytest.raises(ValueError, match=r"text 'figures.names.query' takes \['i'\], got"):
        say("figures.names.query", **values)


@pytest.mark.parametrize("name", ["nowhere.key", "figures.nothing", "figures.names.query.deeper", "figures.axes.z"])
def test_unknown_name_says_where_it_was_sought(name):
    with pytest.raises(KeyError, match=rf"no text '{name}' in mha/text/en/"):
        template(name)
