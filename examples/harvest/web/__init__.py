"""A small web on the loopback interface, for whoever wants to visit it: four sites with everything that goes wrong."""
