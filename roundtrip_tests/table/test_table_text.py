"""How a table is displayed: in two lines at a Python prompt, as its first functions in a notebook."""

from __future__ import annotations

from unwindkit import ARCHITECTURES, CfaKind, CfaRule, Function, Row, table_of

START = Row(0, CfaRule(CfaKind.REGISTER, 7, 8))
NEXT = Row(1, CfaRule(CfaKind.REGISTER, 7, 16))


def test_the_text_of_a_table_has_two_lines() -> None:
    functions = [Function(0x1000, 4, (START, NEXT)), Function(0x2000, 4, (START, NEXT)), Function(0x3000, 4, (START,))]
    table = table_of(ARCHITECTURES["x86_64"], functions, source=".eh_frame")
    assert repr(table).splitlines() == [
        "<UnwindTable of .eh_frame: x86_64, little-endian",
        " 3 functions, 2 row runs, 3 rows>",
    ]
    assert repr(table_of(ARCHITECTURES["s390x"], [])).splitlines() == [
        "<UnwindTable: s390x, big-endian",
        " 0 functions, 0 row runs, 0 rows>",
    ]


def test_a_notebook_sees_ten_functions_and_how_many_more_there_are() -> None:
    functions = [Function(0x1000 * number, 1500, (START, NEXT)) for number in range(1, 13)]
    table = table_of(ARCHITECTURES["x86_64"], functions, source="<one>")
    shown = table._repr_html_()
    assert shown.startswith("<table><caption>&lt;UnwindTable of &lt;one&gt;: x86_64, little-endian\n 12 functions, ")
    assert shown.count("<tr>") == 1 + 10 + 1
    assert '<tr><td>0xa000</td><td>1,500</td><td>2</td></tr><tr><td colspan="3">and 2 more</td></tr></table>' in shown
    assert "more" not in table.select(range(10))._repr_html_()
