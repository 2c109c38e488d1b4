"""A process of its own that chunks texts and detects languages.

Both are CPU work that would delay other requests, and take 200 MB of libraries, which kb-api otherwise does not need.
So the process starts at the first use and ends when it is idle.
"""
