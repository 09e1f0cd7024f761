"""The stores behind the registry's port."""
