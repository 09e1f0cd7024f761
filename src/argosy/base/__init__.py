"""Base: what every room stands on, and what knows of none of them.

Time and machines
    clock       time and randomness, which pure code is given and never takes
    machine     the grammar of machines: facts in, orders out
    driver      the one loop that runs a machine in the world
    retry       trying again, within bounds and with jitter

Names and storage
    hashing     the one hash that places names
    tuples      tuples as keys that sort as the tuples do
    kv          the ordered key-value port, and the store in memory
    cache       values by key, bounded in entries, bytes and time

What operators see
    errors      the tree of errors, by what the caller should do
    settings    what may be tuned: declared once, loaded from file and environment
    values      the kinds of value a setting may have
    metrics     figures, declared beside the code they measure
    logs        one event per line
    tracing     spans, for those who turn them on
    redact      what none of these may show

    backends    otel: spans to an OpenTelemetry collector

Import the module you need; this package loads none of them by itself.
"""
