"""One question to several engines: each in a process of its own, asked in turns, answers compared."""
