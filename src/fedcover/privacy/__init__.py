"""Privacy: noise from the operating system. No ε is claimed anywhere yet."""
