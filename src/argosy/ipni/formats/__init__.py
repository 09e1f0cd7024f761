"""The bytes of the content index, exactly as every other implementation writes and reads them."""
