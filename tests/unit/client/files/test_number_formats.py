"""Values of Excel are shown as their cells show them."""

# ruff: noqa: DTZ001  # Times of workbooks have no zone.

from datetime import date, datetime, time, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_client.files.formats.office.number_formats import show_value

ACCOUNTING = '_("$"* #,##0.00_);_("$"* \\(#,##0.00\\);_("$"* "-"??_);_(@_)'
PHONE = "[<=9999999]###-####;(###) ###-####"


@pytest.mark.parametrize(
    ("value", "code", "shown"),
    [
        (0.125, "0.0%", "12.5%"),
        (0.125, "0%", "13%"),
        (815, "000000", "000815"),
        (815, "\\A-00000", "A-00815"),
        (9876.5, '#,##0.00 "CHF"', "9,876.50 CHF"),
        (9876.5, "[$£-809]#,##0.00", "£9,876.50"),
        (9876.5, "#,##0.00\\ [$€-1]", "9,876.50 €"),
        (9876.5, ACCOUNTING, "$9,876.50"),
        (-9876.5, ACCOUNTING, "$(9,876.50)"),
        (-3, "0.0", "-3.0"),
        (-3, "0.0;[Red]0.0", "-3.0"),
        (-3, "0.0;[Red]-0.0", "-3.0"),
        (-3, "0.0;(0.0)", "(3.0)"),
        (-0.001, "0.00", "0.00"),
        (0, '0.00;-0.00;"none"', "none"),
        (0, "0;-0;;@", ""),
        (42, ";;;", ""),
        (230, '0" V AC"', "230 V AC"),
        (2125550147, PHONE, "(212) 555-0147"),
        (5550147, PHONE, "555-0147"),
        (987654321, "000-00-0000", "987-65-4321"),
        (1.375, "# ?/?", "1 3/8"),
        (0.5, "# ??/??", "1/2"),
        (4.0, "# ?/?", "4"),
        (1.5, "# ?/16", "1 8/16"),
        (98765.4, "0.00E+00", "9.88E+04"),
        (0.000321, "0.0E-0", "3.2E-4"),
        (98765.4, "##0.0E+0", "98.8E+3"),
        (3_400_000, '0.0,,"M"', "3.4M"),
        (3_400_000, "#,##0,", "3,400"),
        (2.5, "0", "3"),
        (2.675, "0.00", "2.68"),
        (7, "0.##", "7"),
        (0.25, ".00", ".25"),
        (5012345678900, "General", "5012345678900"),
        (0.1 + 0.2, "General", "0.3"),
        (0.1 + 0.2, None, "0.3"),
        (1e30, "0", "1" + "0" * 30),
        (180, '[>100]"high";"low"', "high"),
        (20, '[>100]"high";"low"', "low"),
        (float("inf"), "0.00", "inf"),
        (1e308, "0.00%", "1" + "0" * 310 + ".00%"),
        ("pipe", '"Part: "@', "Part: pipe"),
        ("pipe", "0.00", "pipe"),
        ("pipe", ";;;", ""),
        (True, "General", "TRUE"),
        (None, "0.00", ""),
    ],
)
def test_numbers_and_texts_are_shown_in_their_format(value: object, code: str | None, shown: str) -> None:
    assert show_value(value, code) == shown


@pytest.mark.parametrize(
    ("value", "code", "shown"),
    [
        (datetime(2027, 3, 9), "dd.mm.yyyy", "2027-03-09"),
        (datetime(2027, 3, 9), "mm-dd-yy", "2027-03-09"),
        (datetime(2027, 3, 9, 7, 5), "d/m/yyyy h:mm", "2027-03-09 07:05"),
        (datetime(2027, 3, 9), "yyyy-mm-dd h:mm:ss", "2027-03-09"),
        (datetime(2027, 3, 9), "[$-407]dddd, d. mmmm yyyy", "Tuesday 2027-03-09"),
        (datetime(2027, 3, 9), 'yyyy"年"m"月"d"日"', "2027-03-09"),
        (datetime(2027, 3, 9), '"due "d.m.yyyy', "due 2027-03-09"),
        (datetime(2027, 3, 9), "mmm-yy", "Mar 2027"),
        (datetime(2027, 3, 9), "mmmm yyyy", "March 2027"),
        (datetime(2027, 3, 9), "mm/yyyy", "2027-03"),
        (datetime(2027, 3, 9), "d-mmm", "9 Mar"),
        (datetime(2027, 3, 9), "yyyy", "2027"),
        (datetime(2027, 3, 9), "ddd", "Tue"),
        (date(2027, 3, 9), "General", "2027-03-09"),
        (time(7, 5), "h:mm", "7:05"),
        (time(19, 5), "hh:mm AM/PM", "07:05 PM"),
        (time(0, 4, 9), "mm:ss", "04:09"),
        (time(7, 5), 'h:mm" h"', "7:05"),
        (time(0, 0, 2, 500_000), "ss.00", "02.50"),
        (time(0, 0), "dd.mm.yyyy", "1900-01-00"),
        (timedelta(hours=51, minutes=30), "[h]:mm", "51:30"),
        (timedelta(minutes=95), "[m]:ss", "95:00"),
        (timedelta(hours=-1.5), "[h]:mm", "-1:30"),
        (timedelta(hours=51), '[h]" hours"', "51 hours"),
    ],
)
def test_dates_and_times_are_shown_as_far_as_their_format_does(
    value: date | time | timedelta, code: str, shown: str
) -> None:
    assert show_value(value, code) == shown


@given(st.decimals(min_value=-(10**9), max_value=10**9, places=4), st.integers(0, 4), st.booleans())
def test_a_number_is_rounded_half_away_from_zero_and_keeps_its_digits(
    number: Decimal, places: int, grouped: bool
) -> None:
    code = ("#,##0" if grouped else "0") + ("." + "0" * places if places else "")
    shown = Decimal(show_value(float(number), code).replace(",", ""))
    assert abs(shown - number) <= Decimal(1).scaleb(-places) / 2
    assert shown == 0 or (shown > 0) == (number > 0)


@given(st.integers(0, 10**12), st.integers(1, 12))
def test_leading_zeros_fill_the_places_and_no_digit_is_lost(number: int, places: int) -> None:
    assert show_value(number, "0" * places) == str(number).rjust(places, "0")


@given(st.integers(0, 10**9))
def test_a_duration_of_any_length_is_counted_in_its_first_unit(seconds: int) -> None:
    hours, minutes, rest = show_value(timedelta(seconds=seconds), "[h]:mm:ss").split(":")
    assert int(hours) * 3600 + int(minutes) * 60 + int(rest) == seconds


@given(
    st.text('0#?.,%/E+-;[]\\_*@"$ dmyhsAP<>=1 Generalx', max_size=40),
    st.one_of(
        st.floats(), st.integers(), st.booleans(), st.text(max_size=5), st.datetimes(), st.times(), st.timedeltas()
    ),
)
def test_no_format_is_refused(code: str, value: object) -> None:
    assert isinstance(show_value(value, code), str)
