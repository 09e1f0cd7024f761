"""The front door of the content index: one find, put to every indexer, and one answer made of theirs."""
