"""A zone: one base model, its supply and one mechanism, decided on by one thread."""
