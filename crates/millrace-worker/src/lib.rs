mod backoff;
mod concurrency;
mod outcome;
mod poll_interval;
mod prefetch;
