"""The records in the topics of a flow: error, re-entry and outcome records."""
