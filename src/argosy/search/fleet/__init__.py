"""The node of the search fleet: it fetches, indexes, keeps fresh, serves, evicts and hands on what it holds.

Reading order: `model` (what nodes are asked and tell), `ports` (what a node needs and what it offers).
"""
