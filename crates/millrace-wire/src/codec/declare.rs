//! The macros that declare structures, requests and answers.

use std::borrow::Cow;

use super::node::Node;
use super::value::Member;
use crate::ApiError;

/// The name of a member, and how Query and XML lay it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    pub(super) wire: &'static str,
    /// Elements carry the member's own name, without `member` or `entry`.
    pub(super) is_flat: bool,
    /// Names of key and value of a map's entries.
    pub(super) key: &'static str,
    pub(super) value: &'static str,
    /// In Query the parameter may be written in any case, where none has the very name.
    pub(super) is_any_case: bool,
    /// Stands for the elements of the member.
    is_element: bool,
}

impl Name {
    /// Of elements, whose layout is the usual one.
    pub(super) const ELEMENT: Name = Name { is_element: true, ..Name::new("") };

    /// A member of that name: lists have `member`, maps `entry` with `key` and `value`.
    pub const fn new(wire: &'static str) -> Name {
        Name {
            wire,
            is_flat: false,
            key: "key",
            value: "value",
            is_any_case: false,
            is_element: false,
        }
    }

    /// A list or map whose elements carry the name of the member itself.
    #[must_use]
    pub const fn flat(self) -> Name {
        Name { is_flat: true, ..self }
    }

    /// A map whose entries have other names for key and value.
    #[must_use]
    pub const fn keyed(self, key: &'static str, value: &'static str) -> Name {
        Name { key, value, ..self }
    }

    /// A parameter that clients write in upper and lower case. The declared case counts first.
    #[must_use]
    pub const fn in_any_case(self) -> Name {
        Name { is_any_case: true, ..self }
    }

    /// The elements of this member, for errors.
    pub(super) fn element(&self) -> Name {
        Name { wire: self.wire, ..Name::ELEMENT }
    }

    /// The error of a value of JSON or CBOR that is not `one`, or not `many` if it is an element.
    pub(super) fn wrong_type(&self, one: &str, many: &str) -> ApiError {
        let expected = if self.is_element { many } else { one };
        ApiError::serialization(format!("{} is not {expected}", self.wire))
    }

    /// The error of a parameter.
    pub(super) fn malformed(&self, expected: &str) -> ApiError {
        ApiError::malformed_input(format!("parameter {} is not {expected}", self.wire))
    }
}

/// The members of a structure, in the order in which they are written.
#[derive(Debug, Default)]
pub struct Members(Vec<(Cow<'static, str>, Node)>);

impl Members {
    /// Adds a member unless it is absent.
    #[must_use]
    pub fn with(mut self, member: &impl Member, name: &'static Name) -> Members {
        self.0.extend(member.node(name).map(|node| (Cow::Borrowed(name.wire), node)));
        self
    }

    /// The structure of these members.
    pub fn into_node(self) -> Node {
        Node::Structure(self.0)
    }
}

/// Declares structures: `member: type = "NameOnTheWire"`, with `.flat()`, `.keyed(…)` or
/// `.in_any_case()` behind the name where the layout is not the usual one ([`Name`](crate::codec::Name)). What types there are:
/// [`Member`](crate::codec::Member).
///
/// Structures should not contain themselves; those that do are read down to a bounded depth.
#[macro_export]
macro_rules! structures {
    ($($(#[$doc:meta])* $vis:vis $name:ident { $(
        $(#[$member_doc:meta])*
        $member:ident: $kind:ty = $wire:literal $(.$layout:ident($($argument:literal),*))*,
    )* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        $vis struct $name {
            $($(#[$member_doc])* $vis $member: $kind,)*
        }

        impl $crate::codec::Structure for $name {
            #[allow(unused_variables, reason = "some have no members")]
            fn read(input: &$crate::codec::Input<'_>) -> Result<Self, $crate::ApiError> {
                Ok($name {
                    $($member: $crate::codec::Member::read(
                        input,
                        const { &$crate::codec::Name::new($wire)$(.$layout($($argument),*))* },
                    )?,)*
                })
            }

            fn members(&self) -> $crate::codec::Members {
                $crate::codec::Members::default()$(.with(
                    &self.$member,
                    const { &$crate::codec::Name::new($wire)$(.$layout($($argument),*))* },
                ))*
            }
        }
    )*};
}

/// Declares the requests of a service: actions, each with the structure of its request.
#[macro_export]
macro_rules! actions {
    ($(#[$doc:meta])* $vis:vis $name:ident { $($action:ident($request:ty),)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        $vis enum $name {
            $($action($request),)*
        }

        impl $name {
            /// The names of the actions.
            $vis const NAMES: [&'static str; [$(stringify!($action)),*].len()] =
                [$(stringify!($action)),*];

            /// Reads the request of that name; none if there is no such action.
            $vis fn read(
                name: &str,
                input: &$crate::codec::Input<'_>,
            ) -> Result<Option<Self>, $crate::ApiError> {
                Ok(Some(match name {
                    $(stringify!($action) => {
                        $name::$action($crate::codec::Structure::read(input)?)
                    })*
                    _ => return Ok(None),
                }))
            }
        }
    };
}

/// Declares the answers of a service: like a structure each, or without braces for those that have
/// no result.
#[macro_export]
macro_rules! answers {
    ($(#[$doc:meta])* $vis:vis $name:ident { $(
        $(#[$answer_doc:meta])*
        $answer:ident $({ $(
            $member:ident: $kind:ty = $wire:literal $(.$layout:ident($($argument:literal),*))*,
        )* })?,
    )* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        $vis enum $name {
            $($(#[$answer_doc])* $answer $({ $($member: $kind,)* })?,)*
        }

        impl $name {
            /// The result; none if the answer has no element for it.
            $vis fn node(&self) -> Option<$crate::codec::Node> {
                match self {$(
                    $name::$answer $({ $($member),* })? => {
                        None::<$crate::codec::Members>$(.or(Some(
                            $crate::codec::Members::default()$(.with(
                                $member,
                                const {
                                    &$crate::codec::Name::new($wire)$(.$layout($($argument),*))*
                                },
                            ))*,
                        )))?
                    }
                )*}
                .map($crate::codec::Members::into_node)
            }
        }
    };
}
