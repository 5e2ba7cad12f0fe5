"""Data sets on which constants were chosen. No printed figure comes from them."""
