"""The decision service: HTTP over a durable log."""
