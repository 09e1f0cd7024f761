"""The content gateway: sends each find to every indexer and merges the answers."""
