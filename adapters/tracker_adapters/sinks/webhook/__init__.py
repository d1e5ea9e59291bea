"""The webhook sink: findings of a run as JSON, posted to an address of the user."""

from tracker_adapters.sinks.webhook.sink import WebhookSink

__all__ = ["WebhookSink"]
