"""Commands about what happened: the drawn log, and others that look at several commits."""
