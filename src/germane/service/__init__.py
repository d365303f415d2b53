"""The notification service: events in, deliveries out, nothing lost.

One durable ``Log`` of everything that happens; an api process that validates and appends; a matcher
process that reads the log, calls ``Filter.process`` and writes deliveries with its position in one
transaction; a courier that sends webhooks; a supervisor that keeps them up. Paper Notification,
Figure 1, around one sequence. ``docs/design/service.md`` has the contracts.
"""
