"""The small transformer that is included in the package; it sorts letters."""
