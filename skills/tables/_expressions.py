"""A calculation or condition over columns, written as text: price * pieces, minimum < 0 and town == 'Oslo'.

Nothing in it is run: it is read by Python's parser, and only what is listed here is worked out.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from typing import Any

import pandas as pd

from skills.tables._keys import column_name, numbers_of

_MAX_CHARS = 1_000
_TEXT = r"'[^']*'|\"[^\"]*\""
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def is_expression(text: object) -> bool:
    """Whether a text that is no column's name may be a calculation with columns."""
    return isinstance(text, str) and bool(re.search(r"\S\s*[-+*/%]\s*\S", text))


def evaluate(table: pd.DataFrame, text: str, what: str) -> Any:
    """What the text comes to for each row.

    Columns stand as they are called, whatever is in their names, or between back-ticks; texts and dates
    between quotation marks. There are + - * / %, comparisons, in, and, or, not, and brackets.

    Raises:
        NoColumn: a name is no column.
        ValueError: it cannot be read, or holds anything else.
    """
    if len(text) > _MAX_CHARS:
        raise ValueError(f"{what}: a condition has {_MAX_CHARS:,} characters at most")
    names: list[Any] = []
    written = _with_places(table, text, names)
    try:
        tree = ast.parse(written.strip(), mode="eval")
        return _Reading(table, names, what).value(tree.body)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise _unread(text, what) from error
    except TypeError as error:
        raise ValueError(f"{what}: {text!r} cannot be worked out: {error}") from error


def _with_places(table: pd.DataFrame, text: str, names: list[Any]) -> str:
    """The text with `_0`, `_1`, … for columns, whose names are put into `names`; = becomes ==."""
    columns = sorted(map(str, table.columns), key=len, reverse=True)
    known = "|".join(re.escape(column) for column in columns if column) or r"(?!)"

    def place(found: re.Match[str]) -> str:
        if found["text"]:
            return found[0]
        if found["equals"]:
            return "=="
        if found["word"]:
            return found[0].lower()
        names.append(found["quoted"] or found["column"])
        return f" _{len(names) - 1} "

    pattern = (
        rf"(?P<text>{_TEXT})|`(?P<quoted>[^`]+)`|(?<!\w)(?P<column>{known})(?!\w)"
        r"|(?P<equals>(?<![<>=!])=(?!=))|(?P<word>\b(?:AND|OR|NOT|IN)\b)"
    )
    return re.sub(pattern, place, text)


class _Reading:
    """Works out a tree, column by column."""

    def __init__(self, table: pd.DataFrame, names: list[Any], what: str) -> None:
        self._table, self._names, self._what = table, names, what

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=int() | float() | str() | bool() as value):
                return value
            case ast.Name(id=name):
                place = re.fullmatch(r"_(\d+)", name)
                wanted = self._names[int(place[1])] if place and int(place[1]) < len(self._names) else name
                return self._table[column_name(self._table, wanted, self._what)]
            case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
                return [self.value(each) for each in items]
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return -self._number(inner)
            case ast.UnaryOp(op=ast.Not() | ast.Invert(), operand=inner):
                return ~self._condition(inner)
            case ast.BoolOp(op=how, values=parts):
                both = operator.and_ if isinstance(how, ast.And) else operator.or_
                result = self._condition(parts[0])
                for part in parts[1:]:
                    result = both(result, self._condition(part))
                return result
            case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
                return self._condition(left) & self._condition(right)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self._condition(left) | self._condition(right)
            case ast.BinOp(left=left, op=how, right=right) if type(how) in _ARITHMETIC:
                one, other = self.value(left), self.value(right)
                if isinstance(how, ast.Sub) and (_is_date(one) or _is_date(other)):
                    return (one - other).dt.total_seconds() / 86_400
                return _ARITHMETIC[type(how)](self._as_number(one), self._as_number(other))
            case ast.Compare(left=left, ops=comparisons, comparators=others):
                result: Any = True
                one = self.value(left)
                for how, each in zip(comparisons, others, strict=True):
                    other = self.value(each)
                    result = result & self._compared(one, how, other)
                    one = other
                return result
        raise _unread(ast.unparse(node), self._what)

    def _compared(self, one: Any, how: ast.cmpop, other: Any) -> Any:
        if isinstance(how, ast.In | ast.NotIn):
            found = self._inside(one, other)
            return ~found if isinstance(how, ast.NotIn) else found
        for mine, theirs in ((one, other), (other, one)):
            if not isinstance(mine, pd.Series):
                continue
            if (
                isinstance(how, ast.Eq | ast.NotEq)
                and isinstance(theirs, str | int | float)
                and has_lists(mine)
            ):
                found = among(mine, theirs)
                return ~found if isinstance(how, ast.NotEq) else found
            if isinstance(theirs, int | float) and not isinstance(theirs, bool) and not _is_number(mine):
                return self._pair(one, other, mine, numbers_of(self._table, mine.name, self._what), how)
            if isinstance(theirs, str) and _is_date(mine):
                day = pd.Timestamp(theirs)
                return _COMPARISONS[type(how)](*((one, day) if mine is one else (day, other)))
        return _COMPARISONS[type(how)](one, other)

    def _inside(self, one: Any, other: Any) -> Any:
        """`town in ['Oslo', 'Bergen']`; of a column of lists, or of texts, also `'red' in colours`."""
        if isinstance(one, pd.Series) and isinstance(other, list):
            return among(one, *other) if has_lists(one) else one.isin(other)
        if isinstance(one, str | int | float) and isinstance(other, pd.Series):
            if has_lists(other):
                return among(other, one)
            if isinstance(one, str) and (
                pd.api.types.is_object_dtype(other) or pd.api.types.is_string_dtype(other)
            ):
                return other.str.contains(one, regex=False).fillna(False).astype(bool)
        raise ValueError(f"{self._what}: `in` stands between a column and a list such as ['a', 'b']")

    def _pair(self, one: Any, other: Any, text: Any, numbers: Any, how: ast.cmpop) -> Any:
        return _COMPARISONS[type(how)](*((numbers, other) if text is one else (one, numbers)))

    def _condition(self, node: ast.expr) -> Any:
        value = self.value(node)
        if isinstance(value, pd.Series) and pd.api.types.is_bool_dtype(value):
            return value.fillna(False).astype(bool)
        raise ValueError(f"{self._what}: {ast.unparse(node)!r} is no condition, such as column > 10")

    def _number(self, node: ast.expr) -> Any:
        return self._as_number(self.value(node))

    def _as_number(self, value: Any) -> Any:
        if isinstance(value, pd.Series) and not _is_number(value):
            return numbers_of(self._table, value.name, self._what)
        if isinstance(value, int | float | pd.Series):
            return value
        raise ValueError(f"{self._what}: {value!r} is no number")


def has_lists(column: pd.Series) -> bool:
    """Whether the values of a column are lists."""
    return column.dtype == object and bool(column.map(lambda value: isinstance(value, list)).any())


def among(column: pd.Series, *wanted: Any) -> pd.Series:
    """Whether any of these is in the list of a row."""
    return column.map(lambda value: isinstance(value, list) and any(each in value for each in wanted)).astype(
        bool
    )


def _is_number(value: Any) -> bool:
    return bool(pd.api.types.is_numeric_dtype(value) and not pd.api.types.is_bool_dtype(value))


def _is_date(value: Any) -> bool:
    return isinstance(value, pd.Series) and bool(pd.api.types.is_datetime64_any_dtype(value))


def _unread(text: str, what: str) -> ValueError:
    return ValueError(
        f"{what}: {text!r} cannot be read. Write such as \"minutes > 30 and town == 'Oslo'\", with columns,"
        " numbers, texts in quotation marks, + - * / %, comparisons, in, and, or, not"
    )
