"""PDF: the text of pages, forms and annotations."""
