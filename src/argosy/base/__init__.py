"""Foundations that every other package may import. This package imports none of them.

Time and concurrency
    clock          clock and randomness, always passed in
    state_machine  the interface of state machines: events in, effects out
    driver         runs one state machine in an event loop
    tasks          wait for the first of several tasks, cancel tasks; locks and work queues by key
    shared_calls   identical concurrent calls run once; different ones are sent together
    retry          retries with limits and jitter

Names and storage
    hashing        the hash that places names on rings
    tuples         tuples encoded as keys in the same order
    kv             ordered key-value port, and the store in memory
    key_docs       documentation of the keys of a shared store
    cache          cache bounded in entries, bytes and time
    urls           URLs with several hosts; private and public IP addresses

Operation
    errors         the errors of all packages, by what the caller should do next
    http           errors as HTTP responses, and the admin token
    settings       settings: declared once, loaded from file and environment
    metrics        Prometheus metrics, declared beside the code they measure
    logs           structured log lines, one per event
    tracing        spans, if tracing is turned on
    redact         masks secrets in texts
    extras         optional dependencies, and the error that names a missing one
    lazy_exports   exports of a package that are imported on first use

    backends       OpenTelemetry, ids, and server processes of development and `argosy up`

Import the module you need: `from argosy.base.clock import SystemClock`. Start reading with `errors`, `clock`,
`state_machine` and `driver`.
"""
