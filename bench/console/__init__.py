"""The console with a million cases and ten million messages: its lists, what is seen how soon, and fifty open pages."""
