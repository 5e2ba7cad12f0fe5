"""The log on Kafka; the only importer of confluent_kafka."""
