"""Events of `kb-events` for clients without Kafka: listed per organization, read in pages and as streams."""
