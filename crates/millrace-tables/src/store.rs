//! The store: one writer, readers beside it, and the journal.
