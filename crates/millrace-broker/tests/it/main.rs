//! The broker over a real directory.

mod damage;
