"""HTTP as the front door speaks it with indexers."""
