"""The node of the search fleet: it fetches, indexes, keeps fresh, serves, evicts and hands on what it holds.

Reading order: `model` (what nodes are asked and tell), `ports` (what a node needs and what it offers); then how indexes
are kept: `volume`, `events` and `effects`, `library` (the machine that decides) with its parts `line` (who is made
next), `rounds` (looks and checks, each at its time), `eviction` and `traffic`; `making/` (how an index comes to be) and
`service` (the node). Then how questions are answered: `desk`, `http`, `client`.
"""
