"""`towpath actor`: actors, their instances and their schedules."""
