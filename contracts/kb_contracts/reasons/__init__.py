"""The language of reasons: why a value was refused, in the same words on Kafka, HTTP and in tools."""
