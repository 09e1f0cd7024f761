"""The composition root: builds components from settings and runs them as a process.

Only this package reads the environment, handles signals and selects backends. There are no silent fallbacks: an
unreachable store is retried a bounded number of times, then the start fails.

Reading order: `settings`; `stores` (opens the shared stores); `http_server` (listeners and uvicorn), with
`uvicorn_checks` (whether uvicorn's private API works); `process` (runs a set of roles until a signal) and `roles/`
(what each role sets up); `content_publisher` and `publish_command`; `local_fleet` (search nodes as child processes);
`up` (the command `argosy up`, with `working_sets`, `served_catalog` and `readiness`); `startup` and `console`
(progress, on the log or a terminal).
"""

from argosy.app.settings import SECTIONS, load_settings

__all__ = ["SECTIONS", "load_settings"]
