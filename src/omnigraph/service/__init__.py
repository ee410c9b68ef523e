"""One function per operation, from a request of plain values to a document ready for JSON.

The command line calls these functions, and a server would: every document is made here, and nobody
else makes one. ``documents`` holds what all operations share; each other module is a group of
operations. Nothing here prints, reads flags or decides who may do what: the session does, whose actor
is whoever asks. Writers that make a commit take an ``operation_id`` and a ``message``.
"""
