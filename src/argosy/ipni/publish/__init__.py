"""Being a publisher: a signed chain of advertisements, kept, served and announced."""
