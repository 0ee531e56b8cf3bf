"""The decision service: HTTP over a durable log."""

from driftbandits import extras

extras.needed("Servers", "apsw", "httptools", "msgspec", "prometheus_client", extra="service")
