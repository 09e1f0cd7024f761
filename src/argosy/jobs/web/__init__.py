"""Jobs over HTTP and JSON: for curl, browsers and languages without an SDK."""
