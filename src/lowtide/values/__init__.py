"""The values that documents hold: their types, their order, their stored form, and paths into them."""
