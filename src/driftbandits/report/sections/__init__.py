"""The sections of the page. Each computes what its template says, in words and tables."""
