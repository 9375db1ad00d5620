"""The small transformer that comes with the package: it sorts letters."""
