"""Appointments and when they repeat."""
