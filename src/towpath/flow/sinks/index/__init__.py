"""Elasticsearch and OpenSearch as a sink."""
