"""An indexer as others see it over HTTP: the client of its admin, find and ingest APIs."""
