//! Objects as clients of IronMQ write them: keys in any case, `null` for absent, unknown keys.

/// Declares the fields of a JSON object, each an `Option`, and how it is read.
macro_rules! object {
    ($(#[$about:meta])* $vis:vis struct $name:ident { $($(#[$field_about:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq)]
        $vis struct $name<'a> {
            $($(#[$field_about])* pub $field: Option<$type>,)*
            /// Of the body.
            #[doc(hidden)]
            pub borrowed: std::marker::PhantomData<&'a ()>,
        }

        impl<'de: 'a, 'a> serde::Deserialize<'de> for $name<'a> {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                struct Visitor<'a>(std::marker::PhantomData<&'a ()>);

                impl<'de: 'a, 'a> serde::de::Visitor<'de> for Visitor<'a> {
                    type Value = $name<'a>;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(
                        self,
                        mut map: A,
                    ) -> Result<$name<'a>, A::Error> {
                        let mut read = $name::default();
                        while let Some(key) = map.next_key::<crate::sqs::Text<'de>>()? {
                            $(if key.eq_ignore_ascii_case(stringify!($field).trim_start_matches("r#")) {
                                read.$field = map.next_value()?;
                                continue;
                            })*
                            map.next_value::<serde::de::IgnoredAny>()?;
                        }
                        Ok(read)
                    }
                }

                from.deserialize_map(Visitor(std::marker::PhantomData))
            }
        }
    };
}

pub(super) use object;
