"""The composition root: settings become components, components become a running process.

Only here is the environment read, are signals caught and backends chosen. Nothing falls back: a store that cannot be
reached is tried a bounded number of times and then ends the start with an error.

Reading order: `settings` (of the process), `stores` (opening what is shared), `listening` (the port), `running` (until
told to stop), `roles` (what a process can be), `local_fleet` (several of them on one machine), `up` (one command for
all of it, with `working_sets`, `port_choice`, `served_catalog` and `readiness`).
"""

from argosy.app.settings import SECTIONS, load_settings

__all__ = ["SECTIONS", "load_settings"]
