"""What should be searchable: where repositories are (`addresses`), and the catalog, followed (`client`)."""
