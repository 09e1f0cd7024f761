"""Where the list of indexers comes from."""
