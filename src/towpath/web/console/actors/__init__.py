"""Pages of workflows, actors and schedules."""
