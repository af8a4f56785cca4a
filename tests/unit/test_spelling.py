from pytest_compileiq.spelling import did_you_mean, first_of, quantity, utc


def test_the_nearest_name_is_offered_whatever_its_case():
    assert did_you_mean("LZ4_compres_default", ["LZ4_decompress_safe", "LZ4_compress_default"]) == (
        " (did you mean 'LZ4_compress_default'?)"
    )
    assert did_you_mean("block_m", ["BLOCK_M", "BLOCK_N"]) == " (did you mean 'BLOCK_M'?)"


def test_nothing_is_offered_where_nothing_is_close():
    assert did_you_mean("tile", ["num_warps"]) == ""
    assert did_you_mean("tile", []) == ""


def test_as_many_names_are_told_as_a_sentence_holds():
    assert first_of(["a", "b", "c"], 2) == ["a", "b", "and 1 more"]
    assert first_of(["a", "b"], 2) == first_of(["a", "b"], None) == ["a", "b"]
    assert first_of("abcdefg") == [*"abcde", "and 2 more"] and first_of([]) == []


def test_a_count_of_one_is_in_the_singular_and_every_other_in_the_plural():
    assert [quantity(count, "evaluation") for count in (0, 1, 2)] == ["0 evaluations", "1 evaluation", "2 evaluations"]
    assert [quantity(2, what) for what in ("more launch", "process", "library")] == [
        "2 more launches", "2 processes", "2 libraries",
    ]  # fmt: skip


def test_utc_beyond_the_calendar_is_its_end():
    assert [utc(seconds)[-20:] for seconds in (0, 1e30)] == ["1970-01-01 00:00 UTC", "9999-12-31 23:59 UTC"]
