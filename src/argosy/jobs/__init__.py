"""A durable multi-tenant job broker: acknowledged jobs are never lost, never over a limit, and move between nodes."""
