"""What every package stands on: arguments, files, records, progress, interrupts."""
