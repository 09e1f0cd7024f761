"""The admin surface: what operators and the assigner ask of an indexer."""
