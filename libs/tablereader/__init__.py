"""Read CSV files, and the numbers and dates in them: for skills, the listing of /data and the page.

Input: the bytes of a file with any separator, encoding, decimal mark and order of day and month. Output:
names, rows or columns, and notes on rows and values that did not fit. Standard library only: the image of the
sandbox contains this package as `tablereader`, beside `skills`, so its own imports are relative.
"""

from .converted_columns import TOPICS, convert
from .csv_rows import form_of, lines_of, rows_of
from .open_table import OpenTable
from .read_dates import month, stamp
from .read_numbers import number
from .table_cells import MISSING, clean, counted, folded
from .table_columns import Column, examine
from .table_header import Body, Raw, from_rows
from .text_decoding import NotText, decode
from .units_of_measure import alike, converted

__all__ = [
    "MISSING",
    "TOPICS",
    "Body",
    "Column",
    "NotText",
    "OpenTable",
    "Raw",
    "alike",
    "clean",
    "convert",
    "converted",
    "counted",
    "decode",
    "examine",
    "folded",
    "form_of",
    "from_rows",
    "lines_of",
    "month",
    "number",
    "rows_of",
    "stamp",
]
