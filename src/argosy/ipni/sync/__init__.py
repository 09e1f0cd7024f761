"""Reading publishers' chains over HTTP, and trusting nothing of what they say."""
