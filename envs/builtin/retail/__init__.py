"""Retail: a service desk with a database, a written policy, and a customer who speaks."""
