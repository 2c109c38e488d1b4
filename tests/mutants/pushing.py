"""Faults of pushing files: the limits of the parser process, ids of files, what is sent and deleted."""

from typing import Final

from tests.mutants.mutant import Mutant, in_file

_FILES: Final = "client/kb_client/files"
_PARSER: Final = f"{_FILES}/file_parser.py"
_PROCESS: Final = f"{_FILES}/parser_process.py"
_FIND: Final = f"{_FILES}/find_files.py"
_PLAN: Final = f"{_FILES}/push_plan.py"

_UNIT: Final = "tests/unit/client/files"
_HOSTILE: Final = f"{_UNIT}/test_hostile_files.py"
_FINDING: Final = f"{_UNIT}/test_find_files.py"
_PLANNING: Final = f"{_UNIT}/test_push_plan.py"
_CLAIMS: Final = "tests/unit/client/command_line/test_folder_claims.py"
_WATCHING: Final = f"{_UNIT}/test_folder_watch.py"
_FORMATS: Final = f"{_UNIT}/test_formats.py"
_PAGES: Final = f"{_UNIT}/test_web_pages.py"
_ENCODINGS: Final = f"{_UNIT}/test_encodings.py"
_MAILS: Final = f"{_UNIT}/test_mails.py"
_PDF: Final = f"{_UNIT}/test_pdf_pages.py"
_PDF_PARAGRAPHS: Final = f"{_UNIT}/test_pdf_paragraphs.py"

MUTANTS: Final = (
    Mutant(
        "parser-imports-from-the-pushed-folder",
        _PARSER,
        old='sys.executable, "-P", "-m"',
        new='sys.executable, "-m"',
        caught_by=in_file(_HOSTILE, "test_modules_beside_the_documents_are_not_imported"),
    ),
    Mutant(
        "parser-has-no-limit-of-cpu",
        _PROCESS,
        old="        allow_cpu(options.limits)\n",
        new="",
        caught_by=in_file(_HOSTILE, "test_a_pdf_without_end_is_stopped_and_the_next_file_is_read"),
    ),
    Mutant(
        "parser-has-no-limit-on-the-clock",
        _PARSER,
        old="        timer.start()\n",
        new="        timer.start()\n        timer.cancel()\n",
        caught_by=in_file(_HOSTILE, "test_a_file_takes_no_longer_than_the_limit_on_the_clock"),
    ),
    Mutant(
        "archives-are-unpacked-whatever-their-size",
        f"{_FILES}/formats/office/archive.py",
        old="if sum(member.file_size for member in members) > options.limits.unpacked_bytes:",
        new="if False:",
        caught_by=in_file(_HOSTILE, "test_an_archive_that_unpacks_to_too_much_is_not_unpacked"),
    ),
    Mutant(
        "macros-are-read",
        f"{_FILES}/formats/office/archive.py",
        old="if any(member.filename.lower().endswith(_MACROS) for member in members):",
        new="if False:",
        caught_by=in_file(_HOSTILE, "test_a_file_with_macros_is_a_problem"),
    ),
    Mutant(
        "parser-is-not-replaced",
        _PARSER,
        old="if self._process is not None and self._process.poll() is not None:",
        new="if False:",
        caught_by=in_file(_HOSTILE, "test_one_process_reads_many_files_and_is_replaced_when_it_dies"),
    ),
    Mutant(
        "problems-quote-the-error-of-a-library",
        _PROCESS,
        old="""\
    except Exception:  # noqa: BLE001  # libraries raise anything on damaged files
        return _problem(f"it can't be read as a {path.suffix.lower()} file: it may be damaged", _DAMAGED)
""",
        new="""\
    except Exception as error:  # noqa: BLE001  # libraries raise anything on damaged files
        return _problem(f"it can't be read as a {path.suffix.lower()} file: {error!r}", _DAMAGED)
""",
        caught_by=in_file(_HOSTILE, "test_a_problem_repeats_nothing_of_the_file"),
    ),
    Mutant(
        "hidden-text-of-a-pdf-is-read",
        f"{_FILES}/formats/pdf/document.py",
        old="text_page.get_text_bounded(*bounds)",
        new="text_page.get_text_range()",
        caught_by=in_file(_FORMATS, "test_text_outside_of_the_page_which_no_reader_sees_is_left_out"),
    ),
    Mutant(
        "links-lead-out-of-the-folder",
        _FIND,
        old="    if entry.is_symlink():\n",
        new="    if entry.is_symlink() and entry.is_dir():\n",
        caught_by=in_file(_FINDING, "test_what_no_one_means_is_left_out_and_counted"),
    ),
    Mutant(
        "names-are-not-composed",
        f"{_FILES}/found_file.py",
        old='unicodedata.normalize("NFC", readable)',
        new="readable",
        caught_by=in_file(_FINDING, "test_a_decomposed_name_has_the_id_of_the_composed_one"),
    ),
    Mutant(
        "a-name-of-pushed-folders-is-given-to-the-last-one",
        "services/kb-api/kb_api/pushed_folders.py",
        old='{**key, "version": replaces}',
        new="key",
        caught_by=in_file(
            "tests/integration/kb_api/test_pushed_folders.py",
            "test_another_folder_takes_the_name_by_the_version_that_it_has_read",
        ),
    ),
    Mutant(
        "ignored-files-are-pushed-if-a-shell-names-them",
        _FIND,
        old=" and not self._leave_out(path, root)",
        new="",
        caught_by=in_file(_FINDING, "test_rules_hold_for_whatever_names_a_file"),
    ),
    Mutant(
        "ignore-rules-that-can-not-be-read-ignore-nothing",
        f"{_FILES}/ignore_rules.py",
        old="        except FileNotFoundError:\n",
        new="        except (OSError, UnicodeError):\n",
        caught_by=in_file(_FINDING, "test_nothing_is_found_by_rules_that_can_not_be_read"),
    ),
    Mutant(
        "a-folder-on-another-host-is-the-same",
        f"{_FILES}/folder_place.py",
        old="(stored.host, stored.path) == (mine.host, mine.path)",
        new="stored.path == mine.path",
        caught_by=in_file(_CLAIMS, "test_the_same_path_on_another_host_is_another_folder"),
    ),
    Mutant(
        "a-named-source-is-taken-from-a-folder-that-was-not-named",
        f"{_FILES}/folder_place.py",
        old="(stored.is_named and mine.is_named)",
        new="mine.is_named",
        caught_by=in_file(_CLAIMS, "test_naming_a_source_does_not_take_it_from_another_folder"),
    ),
    Mutant(
        "documents-of-an-unknown-folder-are-free",
        "client/kb_client/command_line/push/folder_claims.py",
        old="if stored is None and page.total_count == 0:",
        new="if stored is None:",
        caught_by=in_file(_CLAIMS, "test_documents_of_an_unknown_folder_are_asked_about"),
    ),
    Mutant(
        "watch-deletes-the-documents-of-an-emptied-folder",
        "client/kb_client/command_line/push/follow.py",
        old="if request.prune and not request.yes else []",
        new="if False else []",
        caught_by=in_file(
            "tests/unit/client/command_line/test_stored_documents.py",
            "test_a_watched_folder_that_vanished_or_was_emptied_stops_the_watch_and_says_so",
        ),
    ),
    Mutant(
        "prune-deletes-documents-that-no-push-made",
        _PLAN,
        old="if document.source_digest is not None and not wanted",
        new="if not wanted",
        caught_by=in_file(_PLANNING, "test_only_pushed_documents_of_pruned_folders_whose_files_are_gone_are_deleted"),
    ),
    Mutant(
        "prune-deletes-the-parts-of-a-file",
        _PLAN,
        old="for each in own if file_id(each) not in there",
        new="for each in own if each not in there",
        caught_by=in_file(_PLANNING, "test_a_file_in_parts_is_unchanged_if_all_of_them_are_there"),
    ),
    Mutant(
        "a-file-that-was-sent-in-part-is-unchanged",
        _PLAN,
        old=" and count_further_parts(stored) == len(parts)",
        new="",
        caught_by=in_file(_PLANNING, "test_a_file_in_parts_is_unchanged_if_all_of_them_are_there"),
    ),
    Mutant(
        "folders-of-one-name-are-mixed",
        _FIND,
        old="if self.found.roots.setdefault(source, root) != root:",
        new="if False:",
        caught_by=in_file(_FINDING, "test_two_folders_of_the_same_name_are_refused"),
    ),
    Mutant(
        "a-folder-that-could-not-be-listed-counts-as-empty",
        _FIND,
        old="        self._incomplete.add(source)\n",
        new="",
        caught_by=in_file(_FINDING, "test_nothing_counts_as_gone_when_a_folder_could_not_be_listed"),
    ),
    Mutant(
        "prune-deletes-what-could-not-be-read",
        _PLAN,
        old="found.keys() | set(kept)",
        new="found.keys()",
        caught_by=in_file(_PLANNING, "test_a_document_whose_file_could_not_be_read_is_kept"),
    ),
    Mutant(
        "prune-deletes-documents-of-another-folder-with-the-same-name",
        _PLAN,
        old="for each in own if file_id(each) not in there",
        new="for each in on_server if file_id(each) not in there",
        caught_by=in_file(_PLANNING, "test_only_pushed_documents_of_pruned_folders_whose_files_are_gone_are_deleted"),
    ),
    Mutant(
        "push-removes-tags-of-others",
        _PLAN,
        old="wanted | (on_server[each].tag_ids if each in on_server else set())",
        new="wanted",
        caught_by=in_file(_PLANNING, "test_nothing_is_sent_that_the_server_has_and_no_tag_of_others_is_lost"),
    ),
    Mutant(
        "modification-time-is-a-change",
        f"{_FILES}/source_digest.py",
        old="digest_bytes(read_bounded(found.path, limits or ParseLimits()))",
        new="digest_bytes(read_bounded(found.path, limits or ParseLimits()) + str(found.modified_at_ns).encode())",
        caught_by=in_file(_FINDING, "test_the_digest_follows_the_contents_alone"),
    ),
    Mutant(
        "comments-of-a-pdf-are-headings",
        f"{_FILES}/formats/pdf/document.py",
        old="map(keep_literal, whole)",
        new="whole",
        caught_by=in_file("tests/unit/client/files/test_literal_lines.py", "test_comments_in_a_file_are_no_headings"),
    ),
    Mutant(
        "watch-reports-half-written-files",
        f"{_FILES}/watch.py",
        old="        if now_s - pending.since < self._quiet_s:\n",
        new="        if False:\n",
        caught_by=in_file(
            _WATCHING,
            "test_a_file_that_is_being_written_is_reported_at_its_end",
            "test_a_file_that_an_editor_replaces_is_never_gone",
        ),
    ),
    Mutant(
        "digest-of-a-file-does-not-order-texts",
        "shared/kb_shared/membership/projection.py",
        old="    if event.source_digest is not None:\n",
        new="    if False:\n",
        caught_by=in_file(
            "tests/unit/indexer/test_projection.py",
            "test_any_order_and_repetition_of_the_same_events_ends_in_the_same_document",
        ),
    ),
    Mutant(
        "text-is-dropped-by-the-name-of-its-element",
        f"{_FILES}/formats/html/visibility.py",
        old="rest > 0 and rest >= min(_LITTLE_TEXT, least * removed)",
        new="True",
        caught_by=in_file(_PAGES, "test_a_page_that_shows_a_text_has_it"),
    ),
    Mutant(
        "what-a-click-opens-counts-as-hidden",
        f"{_FILES}/formats/html/visibility.py",
        old=" or not _can_be_opened(each, opened, clickable=clickable)",
        new=" or True",
        caught_by=in_file(_PAGES, "test_what_one_click_opens_is_a_part_of_the_text"),
    ),
    Mutant(
        "style-sheets-of-mails-hide-nothing",
        f"{_FILES}/formats/mail/message.py",
        old="extract_markup(markup, of_mail=True)",
        new="extract_markup(markup)",
        caught_by=in_file(_MAILS, "test_what_a_rule_hides_is_not_in_the_text"),
    ),
    Mutant(
        "rules-for-small-screens-hide",
        f"{_FILES}/formats/html/style_rules.py",
        old="if not around or (len(around) == 1 and _ON_SCREENS.fullmatch(around[0])):",
        new="if len(around) <= 1:",
        caught_by=in_file(_MAILS, "test_what_no_rule_hides_is_in_the_text"),
    ),
    Mutant(
        "all-is-hidden-with-what-is-around-it",
        f"{_FILES}/formats/html/visibility.py",
        old="if id(outer) in around_shown and not _is_hidden_whole(outer, resized):",
        new="if False:",
        caught_by=in_file(_PAGES, "test_what_one_click_opens_is_a_part_of_the_text"),
    ),
    Mutant(
        "parts-of-texts-surround-the-page",
        f"{_FILES}/formats/html/visibility.py",
        old=" and element.find_parent(_OF_A_TEXT) is not None",
        new=" and False",
        caught_by=in_file(_PAGES, "test_what_stands_around_a_part_of_the_text_belongs_to_it"),
    ),
    Mutant(
        "a-main-part-counts-however-little-it-holds",
        f"{_FILES}/formats/html/visibility.py",
        old="size >= _MOST * (",
        new="size >= 0 * (",
        caught_by=in_file(_PAGES, "test_the_main_part_counts_only_if_it_holds_most_of_the_text"),
    ),
    Mutant(
        "cells-that-span-rows-are-not-repeated",
        f"{_FILES}/formats/html/tables.py",
        old="            if height > 1:\n",
        new="            if False:\n",
        caught_by=in_file(_PAGES, "test_each_row_of_a_table_has_its_cells_and_layout_is_no_table"),
    ),
    Mutant(
        "encodings-are-those-of-python",
        f"{_FILES}/formats/text/encodings.py",
        old="        codec = _SUPERSETS.get(known.name, known.codec_info.name)\n",
        new="        codec = codecs.lookup(name).name\n",
        caught_by=in_file(_ENCODINGS, "test_names_of_encodings_mean_what_browsers_take_them_for"),
    ),
    Mutant(
        "a-named-encoding-counts-more-than-utf-8",
        f"{_FILES}/formats/text/encodings.py",
        old=' and codec != "utf-8" and not _is_rather_utf_8(data, codec)',
        new="",
        caught_by=in_file(_ENCODINGS, "test_a_name_that_cannot_be_true_is_ignored"),
    ),
    Mutant(
        "a-few-signs-are-taken-for-letters-of-a-rare-script",
        f"{_FILES}/formats/text/encoding_guess.py",
        old="return _WESTERN if is_sparse or",
        new="return _WESTERN if",
        caught_by=in_file(_ENCODINGS, "test_a_few_signs_and_accents_are_those_of_the_west"),
    ),
    Mutant(
        "a-plain-text-that-names-another-one-is-shown",
        f"{_FILES}/formats/mail/message.py",
        old="_SAYS_LESS * words.total()",
        new="0 * words.total()",
        caught_by=in_file(_MAILS, "test_each_part_that_a_mail_program_shows_is_in_the_text"),
    ),
    Mutant(
        "a-scan-with-a-stamp-counts-as-text",
        f"{_FILES}/formats/pdf/document.py",
        old="    if sum(map(str.isalnum, text)) > _MOST_CHARACTERS_OF_A_PICTURE:\n",
        new="    if text.strip():\n",
        caught_by=in_file(_PDF, "test_a_page_that_is_mostly_a_picture_is_said_to_be_one"),
    ),
    Mutant(
        "powers-of-ten-are-numbers-of-their-digits",
        f"{_FILES}/formats/pdf/lines.py",
        old="mark_raised(text_page, shown, own) if _DIGIT_AFTER_SOMETHING.search(shown) else shown",
        new="shown",
        caught_by=in_file(_PDF, "test_raised_and_lowered_numbers_are_told_from_digits"),
    ),
    Mutant(
        "lines-of-a-pdf-are-no-paragraphs",
        f"{_FILES}/formats/pdf/paragraphs.py",
        old="        if not _is_aligned(lines, line) or not _is_full(before, line, edge.right):\n",
        new="        if True:\n",
        caught_by=in_file(_PDF_PARAGRAPHS, "test_lines_of_a_paragraph_are_one"),
    ),
    Mutant(
        "lines-of-an-address-are-joined",
        f"{_FILES}/formats/pdf/paragraphs.py",
        old=" or line.right + width > right\n",
        new=" or True\n",
        caught_by=in_file(_PDF_PARAGRAPHS, "test_lines_that_end_before_the_edge_stay_lines"),
    ),
    Mutant(
        "words-with-a-gap-between-them-are-one",
        f"{_FILES}/formats/pdf/lines.py",
        old="if len(glued) <= _MOST_GAPS * letters:",
        new="if False:",
        caught_by=in_file(_PDF_PARAGRAPHS, "test_words_are_parted_by_the_gaps_between_their_letters"),
    ),
    Mutant(
        "headers-of-tables-are-headers-of-pages",
        f"{_FILES}/formats/pdf/running_lines.py",
        old=" or (at in rows and not counts_pages)",
        new="",
        caught_by=in_file(_PDF_PARAGRAPHS, "test_the_header_of_a_table_that_goes_on_over_pages_stays_with_its_rows"),
    ),
    Mutant(
        "large-titles-with-a-number-are-headers-of-pages",
        f"{_FILES}/formats/pdf/running_lines.py",
        old="(counts_pages and line.height > _LARGE * usual)",
        new="False",
        caught_by=in_file(_PDF_PARAGRAPHS, "test_a_heading_that_names_a_page_once_and_large_chapter_titles_stay"),
    ),
    Mutant(
        "columns-are-read-line-by-line",
        f"{_FILES}/formats/pdf/lines.py",
        old="order_columns(list(_join_level(pieces)))",
        new="list(_join_level(pieces))",
        caught_by=in_file(_PDF_PARAGRAPHS, "test_columns_that_are_drawn_line_by_line_are_read_one_after_the_other"),
    ),
    Mutant(
        "a-page-ends-the-sentence-that-goes-on-over-it",
        f"{_FILES}/formats/pdf/document.py",
        old="continued={at + 1 for at in continued if not pages[at].annotations},",
        new="continued=(),",
        caught_by=in_file(_PDF_PARAGRAPHS, "test_a_sentence_goes_on_over_a_page_and_each_part_keeps_its_page"),
    ),
    Mutant(
        "hyphens-that-a-font-calls-soft-are-removed",
        f"{_FILES}/formats/pdf/hyphenation.py",
        old="if _is_drawn(text_page, indexes[place])",
        new="if False",
        caught_by=in_file("tests/files/test_corpus.py", "test_a_text_has_what_a_person_sees"),
    ),
    Mutant(
        "the-foot-of-a-page-ends-its-last-word",
        f"{_FILES}/formats/pdf/hyphenation.py",
        old="_FARTHEST_LINE: Final = 3\n",
        new="_FARTHEST_LINE: Final = 3_000\n",
        caught_by=in_file("tests/files/test_corpus.py", "test_a_text_has_what_a_person_sees"),
    ),
    Mutant(
        "arabic-words-are-read-as-they-are-drawn",
        f"{_FILES}/formats/pdf/right_to_left.py",
        old="ordered = reversed(glyphs) if is_drawn_from_left else glyphs",
        new="ordered = glyphs",
        caught_by=in_file("tests/files/test_corpus.py", "test_a_text_has_what_a_person_sees"),
    ),
    Mutant(
        "a-glyph-without-a-letter-hides-the-places-of-all",
        f"{_FILES}/formats/pdf/characters.py",
        old="        elif code:\n",
        new="        else:\n",
        caught_by=in_file(_PDF, "test_glyphs_without_a_letter_or_beyond_others_hide_no_place"),
    ),
    Mutant(
        "pages-are-read-as-they-lie",
        f"{_FILES}/formats/pdf/turned.py",
        old="        quarters = counts[0][0] if counts else 0\n",
        new="        quarters = 0\n",
        caught_by=in_file(_PDF, "test_lines_of_a_turned_page_keep_their_order_and_their_words"),
    ),
    Mutant(
        "hidden-layers-of-a-pdf-are-read",
        f"{_FILES}/formats/pdf/document.py",
        old="hidden = hide_layers(page)",
        new="hidden = 0",
        caught_by=in_file(_PDF, "test_layers_that_are_hidden_are_left_out_and_counted"),
    ),
    Mutant(
        "recognized-text-is-taken-for-a-hidden-layer",
        f"{_FILES}/formats/pdf/layers.py",
        old="not any(map(is_invisible, of_layer)) and ",
        new="",
        caught_by=in_file(_PDF, "test_layers_that_are_hidden_are_left_out_and_counted"),
    ),
    Mutant(
        "glyphs-without-letters-are-indexed",
        f"{_FILES}/formats/pdf/document.py",
        old="is_readable(text) and (_knows_letters(text_page) or reads_as_words(text))",
        new="True",
        caught_by=in_file(_PDF, "test_characters_that_are_no_letters_are_left_out_and_said"),
    ),
    Mutant(
        "hidden-annotations-are-read",
        f"{_FILES}/formats/pdf/annotations.py",
        old="raw.FPDFAnnot_GetFlags(annotation) & _NOT_SEEN",
        new="raw.FPDFAnnot_GetFlags(annotation) & 0",
        caught_by=in_file(_PDF, "test_values_of_a_form_stand_beside_their_labels"),
    ),
    Mutant(
        "titles-of-templates-are-titles",
        "client/kb_client/files/titles.py",
        old="not plain or _OF_PROGRAMS.fullmatch(plain) or ",
        new="not plain or ",
        caught_by=in_file(_FORMATS, "test_a_title_of_a_template_gives_way_to_the_name_of_the_file"),
    ),
    Mutant(
        "a-byte-order-mark-becomes-a-character",
        "client/kb_client/marked_text.py",
        old='.removeprefix("\\ufeff")',
        new="",
        caught_by=in_file("tests/unit/client/test_marked_text.py", "test_a_text_is_the_same_in_each_marked_encoding"),
    ),
)
