"""The content index: who holds exactly this content, by its hash; wire-compatible with IPNI."""
