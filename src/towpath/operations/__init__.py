"""One declaration for each thing that people and programs can ask for."""
