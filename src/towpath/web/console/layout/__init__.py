"""What all pages share: the page and its menu, lists, forms and their errors, looks of values, charts, live news."""
