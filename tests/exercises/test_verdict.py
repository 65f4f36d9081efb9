"""A verdict reads well as text and as HTML, and says the same in both."""

from mha.exercises import Verdict

HINT = "the maximum is < 1 & the rest of this sentence is long enough to be wrapped in a console of 88 columns."


def test_text_is_wrapped_and_the_example_indented():
    lines = repr(Verdict("heads-1", False, "values", HINT, "x = [[1.]\n     [2.]]")).splitlines()
    assert lines[0].startswith("✗ heads-1: the maximum is < 1 & the rest")
    assert max(map(len, lines)) <= 88
    assert lines[-3:] == ["", "  x = [[1.]", "       [2.]]"]


def test_html_is_escaped():
    text = Verdict("heads-1", False, "values", HINT, "a < b")._repr_html_()
    assert "is &lt; 1 &amp; the rest" in text
    assert "<pre>a &lt; b</pre>" in text
    assert 'class="mha-verdict mha-verdict-wrong"' in text


def test_html_of_a_right_answer_has_no_example():
    text = Verdict("heads-1", True, "all", "right.")._repr_html_()
    assert "<pre>" not in text
    assert "mha-verdict-right" in text
    assert "✓" in text


def test_an_open_exercise_is_neither_right_nor_wrong():
    verdict = Verdict("heads-1", False, "unanswered", "not yet")
    assert not verdict
    assert repr(verdict) == "○ heads-1: not yet"
    assert "mha-verdict-open" in verdict._repr_html_()


def test_a_right_answer_is_true():
    assert Verdict("heads-1", True, "all", "")
    assert not Verdict("heads-1", False, "values", "")
