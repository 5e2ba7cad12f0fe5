"""Commands for data sets and complaints."""
