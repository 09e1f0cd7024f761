"""Where buckets are kept, and how to reach them: memory, a file, Redis; `opening` chooses by URL."""
