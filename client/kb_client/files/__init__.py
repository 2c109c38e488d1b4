"""Reads files for `kb docs push`: which files a path means, their ids, their texts, and what has to be sent.

The steps of a push are `find_files`, `digest_file` for each file, `plan_push` with what the server has and
`FileParser.parse` for each file to send. `FolderWatch` finds what changes later. Libraries for formats are imported
in the parser process only.
"""
