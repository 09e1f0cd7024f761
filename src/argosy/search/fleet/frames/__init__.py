"""Questions and answers in frames: many at a time on one connection, in whatever order they are done."""
