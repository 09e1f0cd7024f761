"""Following many publishers at once."""
