"""Faults of reading tables and office files: what is taken for a header, shown values, what a reader does not see."""

from typing import Final

from tests.mutants.mutant import Mutant, in_file

_FORMATS: Final = "client/kb_client/files/formats"
_HEADER: Final = f"{_FORMATS}/tables/header.py"
_ROWS: Final = f"{_FORMATS}/tables/rows.py"
_UNIT: Final = "tests/unit/client/files"
_EXCEL: Final = f"{_UNIT}/test_excel.py"
_POWERPOINT: Final = f"{_UNIT}/test_powerpoint.py"
_WORD: Final = f"{_UNIT}/test_word.py"
_TABLES: Final = f"{_UNIT}/test_rows.py"

MUTANTS: Final = (
    Mutant(
        "zeros-stand-for-results-that-are-not-computed",
        f"{_FORMATS}/office/excel.py",
        old="value is None or (self.computed_later and value == 0 and value is not False)",
        new="value is None",
        caught_by=in_file(_EXCEL, "test_a_zero_is_no_result_if_excel_is_to_compute_all_formulas"),
    ),
    Mutant(
        "names-of-empty-columns-are-lost",
        _ROWS,
        old="        if unused:\n",
        new="        if False:\n",
        caught_by=in_file(_TABLES, "test_names_of_columns_without_values_stand_below_the_table"),
    ),
    Mutant(
        "values-like-those-below-them-name-columns",
        _HEADER,
        old="        if odd - series:\n",
        new="        if False:\n",
        caught_by=in_file(_TABLES, "test_no_value_of_the_first_row_names_others"),
    ),
    Mutant(
        "years-are-no-names-of-columns",
        _HEADER,
        old="for kind in (CellKind.YEAR, CellKind.DATE, CellKind.PERCENT)",
        new="for kind in (CellKind.DATE, CellKind.PERCENT)",
        caught_by=in_file(_TABLES, "test_a_row_that_differs_from_those_below_names_the_columns"),
    ),
    Mutant(
        "two-columns-have-a-header-whatever-they-are",
        _HEADER,
        old="            return self._two_columns(words, strong)\n",
        new="            return True\n",
        caught_by=in_file(_TABLES, "test_each_label_keeps_its_value"),
    ),
    Mutant(
        "a-table-of-texts-gets-the-names-of-the-one-above",
        _HEADER,
        old="        bool(cells)\n        and all(kind_of",
        new="        all(kind_of",
        caught_by=in_file(_TABLES, "test_a_table_of_texts_below_another_one_does_not_get_its_names"),
    ),
    Mutant(
        "columns-beyond-the-sample-are-lost",
        _ROWS,
        old="pairwise([*firsts, sys.maxsize])",
        new="pairwise([*firsts, groups[-1][-1]])",
        caught_by=in_file(_TABLES, "test_tables_side_by_side_are_two_tables"),
    ),
    Mutant(
        "the-comma-cuts-first",
        f"{_FORMATS}/delimited.py",
        old='_DELIMITERS: Final = ";\\t|,"',
        new='_DELIMITERS: Final = ",;\\t|"',
        caught_by=in_file(_TABLES, "test_with_two_delimiters_that_cut_alike_the_comma_is_the_decimal_one"),
    ),
    Mutant(
        "raised-digits-join-the-number-before-them",
        f"{_FORMATS}/text/superscripts.py",
        old='f"^{raised}" if',
        new="raised if",
        caught_by=in_file(
            f"{_UNIT}/test_superscripts.py",
            "test_a_raised_text_does_not_join_the_number_before_it",
            "test_no_raised_or_lowered_number_reads_as_one_number_with_the_digits_before_it",
        ),
    ),
    Mutant(
        "values-lose-their-number-format",
        f"{_FORMATS}/office/excel.py",
        old="if isinstance(value, str) else value, style.code)",
        new='if isinstance(value, str) else value, "General")',
        caught_by=in_file(_EXCEL, "test_cells_are_shown_in_their_formats"),
    ),
    Mutant(
        "hidden-rows-are-read",
        f"{_FORMATS}/office/excel.py",
        old='if attributes.get("hidden") in ("1", "true"):',
        new="if False:",
        caught_by=in_file(_EXCEL, "test_hidden_rows_columns_and_sheets_are_left_out_and_said"),
    ),
    Mutant(
        "formulas-without-a-result-are-not-counted",
        f"{_FORMATS}/office/excel.py",
        old="            self.without_result += 1\n",
        new="            pass\n",
        caught_by=in_file(_EXCEL, "test_formulas_without_a_result_are_counted_with_a_remedy"),
    ),
    Mutant(
        "deleted-text-is-read",
        f"{_FORMATS}/office/word_paragraph.py",
        old='_DELETED: Final = frozenset({f"{WORD}del", f"{WORD}moveFrom"})',
        new='_DELETED: Final = frozenset({f"{WORD}del"})',
        caught_by=in_file(_WORD, "test_what_is_shown_of_a_paragraph_is_its_text"),
    ),
    Mutant(
        "hidden-styles-are-read",
        f"{_FORMATS}/office/word_styles.py",
        old='hidden=switch("vanish", default=inherited.hidden)',
        new="hidden=inherited.hidden",
        caught_by=in_file(
            _WORD, "test_hidden_text_of_a_style_is_left_out", "test_what_is_shown_of_a_paragraph_is_its_text"
        ),
    ),
    Mutant(
        "lower-levels-of-a-list-do-not-begin-again",
        f"{_FORMATS}/office/word_numbering.py",
        old="            if restart is None or level < restart:\n",
        new="            if False:\n",
        caught_by=in_file(_WORD, "test_automatic_numbers_are_part_of_the_text"),
    ),
    Mutant(
        "a-field-without-an-end-hides-the-rest",
        f"{_FORMATS}/office/word_paragraph.py",
        old="        self._fields = [True] * len(self._fields)\n",
        new="",
        caught_by=in_file(_WORD, "test_a_field_without_an_end_hides_no_other_paragraph"),
    ),
    Mutant(
        "new-tables-of-slides-have-a-header-whatever-they-are",
        f"{_FORMATS}/office/powerpoint.py",
        old="first_row_stands_out and len(texts) > _COLUMNS_OF_LABELS",
        new="first_row_stands_out",
        caught_by=in_file(_POWERPOINT, "test_labels_with_their_values_are_no_table_of_a_new_style"),
    ),
    Mutant(
        "charts-of-slides-are-not-read",
        f"{_FORMATS}/office/powerpoint.py",
        old='(f"{CHART}chart", f"{RELATION}id", chart_text)',
        new='(f"{CHART}x", f"{RELATION}id", chart_text)',
        caught_by=in_file(_POWERPOINT, "test_a_chart_is_a_table_of_its_values"),
    ),
)
