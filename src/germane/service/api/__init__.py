"""The HTTP API: validates, appends, reads tables, streams deliveries; it never matches."""
