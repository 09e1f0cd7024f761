"""Publishing: a signed chain of advertisements, stored, served over HTTP and announced."""
