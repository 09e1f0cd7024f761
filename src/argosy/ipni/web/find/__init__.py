"""The find surface: who has this content, asked in any of the ways that clients know."""
