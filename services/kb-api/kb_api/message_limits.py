from collections.abc import Mapping

from kb_contracts.topics import Topic


class MessageLimits:
    """Limits of the size of a record for each topic, in bytes: that of the contract, or a lower one of the brokers."""

    def __init__(self) -> None:
        self._of_brokers: dict[str, int] = {}

    def set_broker_limits(self, max_message_bytes: Mapping[str, int]) -> None:
        """Store the limits of the brokers, by the names of topics without the prefix of the deployment."""
        self._of_brokers |= max_message_bytes

    def get_limit(self, topic: Topic) -> int:
        # Our producers never send more than the contract allows, even if the brokers accept more.
        return min(topic.max_message_bytes, self._of_brokers.get(topic.name, topic.max_message_bytes))
