"""The API of zoekt's web server, spoken so that its clients need no change."""
