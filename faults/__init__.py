"""Fault injection: break gpzed on purpose and count what happens. Run with `make faults`."""
