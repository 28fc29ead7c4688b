//! Select: its language, and how SQLite answers it.
