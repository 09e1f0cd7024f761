"""The front door: admits, routes, scatters, gathers, shows."""
