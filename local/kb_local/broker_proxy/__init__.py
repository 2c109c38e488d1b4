"""Adds to Tansu what a Kafka broker does with a fetch that finds no records: it waits until there are some."""
