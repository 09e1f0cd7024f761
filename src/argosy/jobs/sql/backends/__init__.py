"""Encoders of results that need a library of their own."""
