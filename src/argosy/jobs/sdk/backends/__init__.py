"""What moves the SDK's questions: links, batches, threads."""
