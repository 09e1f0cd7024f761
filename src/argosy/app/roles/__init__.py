"""The roles of a process. Each module sets up one role: it builds the components from the settings and adds their
routes, tasks and readiness conditions to the `Process`. `process.py` imports a role's module only if the role is used.
"""
