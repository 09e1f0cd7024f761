"""Jobs over HTTP and JSON: for curl, for browsers, for languages without an SDK."""
