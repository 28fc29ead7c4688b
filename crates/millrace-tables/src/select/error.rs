//! Why a query has no answer.

use thiserror::Error;

/// Each stands for one of SimpleDB's codes.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SelectError {
    /// InvalidQueryExpression.
    #[error("the expression is not of the language")]
    Syntax,
    /// InvalidNumberPredicates.
    #[error("the expression has more than {0} predicates")]
    TooManyPredicates(usize),
    /// InvalidNumberValueTests.
    #[error("the expression compares with more than {0} values")]
    TooManyValues(usize),
    /// InvalidSortExpression.
    #[error("no predicate requires the sort attribute to be present")]
    Sort,
    /// InvalidParameterValue. The limit, as it was written.
    #[error("the limit {0} is not between 1 and 2500")]
    Limit(String),
    /// TooManyRequestedAttributes.
    #[error("more than {0} attributes are to be returned")]
    TooManyAttributes(usize),
    /// InvalidNextToken.
    #[error("the token is of another query, or none of ours")]
    Token,
    /// NoSuchDomain.
    #[error("the domain does not exist")]
    NoSuchDomain,
    /// RequestTimeout: the time was over before anything was looked at.
    #[error("the query took too long")]
    TimedOut,
    /// InternalError. What SQLite says, for the log.
    #[error("the query failed: {0}")]
    Failed(String),
}

impl From<rusqlite::Error> for SelectError {
    fn from(error: rusqlite::Error) -> SelectError {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::OperationInterrupted) => SelectError::TimedOut,
            _ => SelectError::Failed(error.to_string()),
        }
    }
}

impl From<rusqlite::types::FromSqlError> for SelectError {
    fn from(error: rusqlite::types::FromSqlError) -> SelectError {
        SelectError::Failed(error.to_string())
    }
}
