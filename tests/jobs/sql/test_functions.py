"""Functions on lists and maps, with the semantics existing clients rely on."""

from argosy.jobs.sql.engine import array_any_value, array_contains, element_at, starts_with


def test_a_map_has_a_list_of_values_under_a_key() -> None:
    assert element_at('{"k":"v"}', "k") == '["v"]'
    assert element_at('{"k":"v"}', "x") == "[]"
    assert element_at('["a","b"]', 2) == '["b"]'
    assert element_at('["a"]', 2) is None
    assert element_at("no json", "k") is None
    assert element_at(None, "k") is None


def test_lists_and_texts() -> None:
    assert array_contains('["v"]', "v") is True
    assert array_contains("[]", "v") is False
    assert array_contains("{}", "v") is None
    assert array_any_value('[null,"v"]') == "v"
    assert array_any_value("[]") is None
    assert starts_with("value", "val") is True
    assert starts_with(None, "val") is None
