"""What people and programs can ask for: JSON shapes and bodies, shared by the command line, the API and the console."""
