"""What a small model is told to write after an error, and when that it says the same again is noticed."""

from __future__ import annotations

import json
import re

import pytest

from agent import code_graph
from agent.config import ROOT
from agent.small_prompt import IMPORTS
from libs.code_blocks.advice import advice
from libs.code_blocks.execution import repeated
from libs.code_blocks.feedback import another_way
from libs.code_blocks.feedback import outputs as told
from libs.code_blocks.protocol import Execution
from libs.code_blocks.reader import Block, Reading

TABLE = (
    "[t: a DataFrame of 91 rows with the columns boat (text), length (m) (int64), price (int64), sold on"
    " (datetime64[us])]"
)


def failed(error: str, line: str = "", *beside: str) -> str:
    """What the interpreter prints of an error in a block."""
    shown = f'  File "<block 3>", line 4, in <module>\n    {line}\n    ^^^^^^^\n' if line else ""
    deeper = '  File "/usr/lib/python3/pandas/core.py", line 17, in get\n    raise KeyError(key)\n'
    return "\n".join([f"1 row\nTraceback (most recent call last):\n{shown}{deeper}{error}", *beside, ""])


def execution(output: str, code: str, exit_code: int = 1) -> Execution:
    return Execution(language="python", code=code, output=output, exit_code=exit_code, seconds=0)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("price/length (m)", "t['price_per_length_m'] = t['price'] / t['length (m)']"),
        ("price * 100", "t['price_times_100'] = t['price'] * 100"),
        ("price - length (m) - 3", "t['price_minus_length_m_minus_3'] = t['price'] - t['length (m)'] - 3"),
    ],
)
def test_a_calculation_in_a_name_becomes_the_line_that_makes_the_column(name: str, code: str) -> None:
    assert code in advice(failed(f"KeyError: {name!r}", f"t = t.sort_values({name!r})", TABLE)).splitlines()


def test_a_name_with_an_operator_that_has_no_columns_in_it_is_no_calculation() -> None:
    said = advice(failed("KeyError: 'sold-on'", "t['sold-on']", TABLE))
    assert "calculation" not in said
    assert "Write 'sold on' instead" in said


def test_values_that_were_taken_for_columns_are_called_values() -> None:
    listed = r"Index(['Anna', 'Bella',\n       ...\n       'Zora'],\n      dtype='str', length=91)"
    error = f'KeyError: "None of [{listed}] are in the [columns]"'
    said = advice(failed(error, "print(t[boats].sum())", TABLE))
    assert "boats holds values such as 'Anna': no names of columns" in said
    assert "['price', 'sold on']" in said
    assert "Zora" not in said


def test_one_of_several_columns_that_is_not_there_is_looked_for() -> None:
    said = advice(failed("KeyError: \"['prize'] not in index\"", "t[['boat', 'prize']]", TABLE))
    assert "There is no column 'prize'. Write 'price' instead" in said


def test_a_column_that_is_nowhere_is_looked_for_among_those_there_are() -> None:
    said = advice(failed("KeyError: 'prize'", "t['prize'].sum()", TABLE))
    assert "Write 'price' instead" in said
    assert "'boat', 'length (m)', 'price', 'sold on'" in said
    said = advice(failed("KeyError: 'week'", "t['week'].sum()", TABLE))
    assert "There are: 'boat', 'length (m)', 'price', 'sold on'" in said
    assert "`t['week'] = …`" in said


def test_the_skill_says_in_its_own_words_which_column_is_missing() -> None:
    error = "skills.tables._keys.NoColumn: totals: there is no column 'prize'; the columns are: boat"
    assert advice(failed(error, "totals(t, 'boat', 'prize')", TABLE)) == ""
    calculation = advice(failed(error.replace("prize", "price/3"), "latest(t, 'boat', 'price/3')", TABLE))
    assert "t['price_per_3'] = t['price'] / 3" in calculation


def test_a_column_that_became_the_index_is_taken_from_there() -> None:
    said = advice(failed("KeyError: 'boat'", "t.groupby('boat').sum().iloc[0]['boat']", TABLE))
    assert "`result.index[0]`" in said
    another_table = advice(failed("KeyError: 'boat'", "u['boat']", TABLE))
    assert another_table == "", "the interpreter has said how to merge"


def test_a_column_that_is_gone_as_the_file_was_loaded_again_is_made_again() -> None:
    first = TABLE.replace("[t:", "[first:").replace("price (int64)", "price (int64), days (int64)")
    said = advice(failed("KeyError: 'days'", "t['most'] = t['days'].max()", TABLE, first))
    assert "t was loaded again in this block, so the column 'days'" in said
    other = "[u: a DataFrame of 3 rows with the columns boat (text), days (int64)]"
    assert advice(failed("KeyError: 'days'", "t['most'] = t['days'].max()", TABLE, other)) == ""


def test_an_import_that_does_not_exist_is_left_out() -> None:
    error = "ImportError: cannot import name 'median_of' from 'skills.tables' (/skills/tables/__init__.py)"
    said = advice(failed(error, "", "[skills.tables has load, merge, totals]"))
    assert said.startswith(
        "skills.tables has no 'median_of'. It has load, merge, totals. Leave it out of the import"
    )
    near = advice(failed(error.replace("median_of", "total"), "", "[skills.tables has load, merge, totals]"))
    assert "Write 'totals' instead" in near


@pytest.mark.parametrize(
    ("error", "line", "said"),
    [
        (
            "ValueError: invalid literal for int() with base 10: 'H1'",
            't["house"] = t["house"].astype(int)',
            "The column 'house' holds text such as 'H1': names, not numbers. Leave the conversion of it out.",
        ),
        (
            "ValueError: could not convert string to float: 'low'",
            "t['tide'] = t['tide'].astype(float)",
            "The column 'tide' holds text such as 'low'",
        ),
        ("NameError: name 'pd' is not defined", "pd.concat(parts)", "import pandas as pd"),
        ("NameError: name 'totals' is not defined", "totals(t)", "from skills.tables import totals"),
        ("NameError: name 'price' is not defined", "print(price)", "write t['price']"),
        ("TypeError: list indices must be integers or slices, not str", "data['a']", "`t = load(…)`"),
        ("NameError: name 'rest' is not defined", "print(rest)", "make it in this block"),
        ("ModuleNotFoundError: No module named 'polars'", "import polars", "polars is not installed"),
        (
            "ValueError: The truth value of a Series is ambiguous. Use a.empty, a.bool()",
            "t[t.a > 1 and t.b]",
            "one condition in each line",
        ),
        (
            "ImportError: cannot import name 'count' from 'skills.tables' (/skills/tables/__init__.py)",
            "from skills.tables import load, count",
            "`len(table)` is the number of rows",
        ),
        (
            "TypeError: strptime() argument 1 must be str, not Series",
            "datetime.strptime(t['day'], '%Y')",
            """`t['day'].dt.strftime("%Y-%m")`""",
        ),
        (
            "TypeError: Series.sort_values() takes 1 positional argument but 2 were given",
            "total.sort_values('price')",
            "`.sort_values(ascending=False)`, without a name",
        ),
        (
            "TypeError: totals() got an unexpected keyword argument 'aggfunc'",
            "totals(t, 'boat', aggfunc='sum')",
            "Leave `aggfunc=` out of the call of totals",
        ),
        (
            "TypeError: plot: there is no option colorbar; there are title, xlabel and ylabel.",
            "plot(result, colorbar=False)",
            "Leave `colorbar=` out of the call of plot; all else stays.",
        ),
        (
            "pandas.errors.IntCastingNaNError: Cannot convert non-finite values (NA or inf) to integer",
            "t['price'].astype(int)",
            "Leave `.astype(int)` out",
        ),
        (
            "ValueError: numeric_only accepts only Boolean values",
            "t.groupby('a').sum('b')",
            '["number"].sum()',
        ),
        ("IndexError: single positional indexer is out-of-bounds", "t.iloc[0]", "No row is left there"),
        (
            "TypeError: '>' not supported between instances of 'str' and 'int'",
            "t = t[t['price'] > 3]",
            "t['price'] = pd.to_numeric(t['price'], errors='coerce')",
        ),
        ("AttributeError: Can only use .dt accessor with dates", "t['x'].dt.year", "pd.to_datetime"),
        (
            "AttributeError: 'DataFrame' object has no attribute 'prize'",
            "t.prize",
            "Write 'price' instead",
        ),
    ],
)  # fmt: skip
def test_what_is_said_to_an_error(error: str, line: str, said: str) -> None:
    assert said in advice(failed(error, line, TABLE), IMPORTS)


def test_a_call_is_shown_without_the_options_that_there_are_not() -> None:
    error = "TypeError: plot: there is no option xticks, yticks; there are title and color. For anything else"
    line = "plot(result, 'a.png', color='red', xticks=range(1, 9), title=\"A\", yticks=[1])"
    said = advice(failed(error, line))
    assert said.startswith("Leave `xticks=`, `yticks=` out of the call of plot; all else stays.")
    assert said.splitlines()[-1] == "plot(result, 'a.png', color='red', title='A')"
    error = "TypeError: merge() got an unexpected keyword argument 'key'"
    assert advice(failed(error, "t = a.merge(b, key='x')")).splitlines()[-1] == "t = a.merge(b)"
    assert advice(failed(error, "t = a.merge(b,")).endswith("all else stays.")
    assert advice(failed(error)).endswith("all else stays.")
    assert advice(failed(error, "t = a.join(b, key='x')")).endswith("all else stays.")


def test_a_block_whose_mend_is_certain_is_given_whole() -> None:
    line = "plot(result, 'a.png', xticks=[1])"
    code = f"result = totals(t, 'boat', 'price')\nif True:\n    {line}\n"
    said = advice(failed("TypeError: plot: there is no option xticks; there are title.", line), IMPORTS, code)
    assert said.endswith(
        "```python\nresult = totals(t, 'boat', 'price')\nif True:\n    plot(result, 'a.png')\n```"
    )
    said = advice(failed("NameError: name 'pd' is not defined", "pd.concat(a)"), IMPORTS, "pd.concat(a)")
    assert said.endswith("```python\nimport pandas as pd\npd.concat(a)\n```")
    fenced = 'text = """```"""\npd.concat(text)'
    assert "```" not in advice(failed("NameError: name 'pd' is not defined", "pd"), IMPORTS, fenced)


def test_a_column_of_lists_is_named_where_it_was_compared_with_a_value() -> None:
    loaded = "/data/a.json: 72 rows, 4 columns\nlists: kinds, such as where(table, 'kinds', 'red')\n"
    error = "IndexError: single positional indexer is out-of-bounds"
    compared = "t = t[t['kinds'] == 'red']\nt.iloc[0]"
    blocks, reading = [Block("python", "x")], Reading((Block("python", "x"),))

    def of_empty(code: str) -> str:
        empty = execution(loaded + "Series([], Name: title, dtype: str)\n", code, exit_code=0)
        return told(blocks, [empty], reading, repeats=0, limit=9_000, guided=True)

    for code, named in (
        (compared, True),
        ("t = where(t, 'kinds', 'red')", False),
        ("t = t[t['n'] > 3]", False),
    ):
        said = advice(loaded + failed(error, "t.iloc[0]"), IMPORTS, code)
        assert ("`where(t, 'kinds', …)`" in said) == named
        assert ("`where(t, 'kinds', …)`" in of_empty(code)) == named
        assert of_empty(code).endswith("If there is really nothing of the kind, say so in words.")


def test_small_models_are_told_of_each_function_of_the_skill() -> None:
    assert code_graph._FOR_SMALL["imports"] is IMPORTS
    source = (ROOT / "skills" / "tables" / "__init__.py").read_text()
    [listed] = re.findall(r"^__all__ = (\[.*\])$", source, re.MULTILINE)
    assert sorted(IMPORTS) == json.loads(listed)


def test_functions_are_known_only_to_whoever_hands_them_in() -> None:
    error = failed("NameError: name 'totals' is not defined", "totals(t)")
    assert advice(error).startswith("Nothing is called 'totals'")
    blocks = [Block("python", "totals(t)")]
    ran = [execution(error, "totals(t)")]
    said = told(blocks, ran, Reading(tuple(blocks)), repeats=0, limit=9_000, guided=True, imports=IMPORTS)
    for told_of in (said, another_way(execution(error, ""), IMPORTS)):
        assert "Begin the block with: from skills.tables import totals" in told_of
    for rule in (
        "TypeError: list indices must be integers or slices",
        "AttributeError: Can only use .dt accessor",
    ):
        assert "load" not in advice(failed(rule, "x"))
        assert "load" in advice(failed(rule, "x"), IMPORTS)


@pytest.mark.parametrize(
    "output",
    [
        "",
        "false\n",
        "ZeroDivisionError: division by zero",
        failed("ValueError: could not convert string to float: 'x'", "float(input_text)"),
        failed("KeyError: 'a'", "numbers['a']"),
    ],
)
def test_where_nothing_is_known_nothing_is_advised(output: str) -> None:
    assert advice(output) == ""


def test_advice_is_for_guided_models_and_stands_for_the_general_words() -> None:
    output = failed("KeyError: 'price/boat'", "t.sort_values('price/boat')", TABLE)
    blocks = [Block("python", "x")]
    reading = Reading(tuple(blocks))
    said = {
        guided: told(blocks, [execution(output, "x")], reading, repeats=0, limit=9_000, guided=guided)
        for guided in (True, False)
    }
    assert "t['price_per_boat'] = t['price'] / t['boat']\n" in said[True]
    assert said[True].endswith("Send the whole corrected block.")
    assert "price_per_boat" not in said[False]
    assert said[False].endswith("Read the error, mend its cause and send the whole corrected block.")


def test_begun_afresh_it_is_told_the_error_and_the_way_out_without_its_code() -> None:
    said = another_way(
        execution(failed("KeyError: 'price/boat'", "t = t.sort_values('price/boat')", TABLE), "")
    )
    assert "KeyError: 'price/boat'" in said
    assert "t['price_per_boat'] = t['price'] / t['boat']" in said
    assert "sort_values" not in said
    assert another_way(execution("false", "")).endswith("then go on in the next reply.")


def test_the_same_line_with_the_same_error_is_a_repetition_whatever_else_was_changed() -> None:
    line, error = "print(t.groupby('day').sum()['day'])", "KeyError: 'day'"
    first = execution(failed(error, line), f"import pandas\n{line}")
    again = execution(failed(error, line), f"import pandas\nt = t.copy()\n{line}")
    assert repeated([first, again])
    assert repeated([first, execution("7\n", "print(7)", exit_code=0), again])
    other_line = execution(failed(error, "print(t['day'])"), "print(t['day'])")
    other_error = execution(failed("KeyError: 'month'", line), f"import pandas as pd\n{line}")
    assert not repeated([first, other_line])
    assert not repeated([first, other_error])
    assert not repeated([first])
    assert not repeated([execution("", "false"), execution("", "false; true")]), "no line is shown"
