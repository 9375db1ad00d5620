"""The search that decides in integers alone, in any dimension."""
