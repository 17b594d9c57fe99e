//! The keywords of CQL and what else each of them may stand for.

/// Where a keyword may be used as an ordinary name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeywordClass {
    /// Nowhere, unless quoted.
    Reserved,
    /// Everywhere.
    Unreserved,
    /// Everywhere a name is wanted; `count` calls for care in selectors only.
    Count,
    /// Everywhere but as the name of a function, where it would be mistaken for syntax.
    NotFunction,
    /// Everywhere but as the name of a user type, where it is the native type.
    NativeType,
}

/// Defines the keywords once: variant, upper-case spelling, class. The spelling is also how the keyword is named
/// (after `K_`) in the messages of Cassandra's parser.
macro_rules! keywords {
    ($($variant:ident $spelling:literal $class:ident,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Keyword {
            $($variant,)*
        }

        impl Keyword {
            /// The keyword's token name in Cassandra's grammar.
            pub fn token_name(self) -> &'static str {
                match self {
                    $(Keyword::$variant => concat!("K_", $spelling),)*
                }
            }

            pub fn class(self) -> KeywordClass {
                match self {
                    $(Keyword::$variant => KeywordClass::$class,)*
                }
            }
        }

        /// In the order of the spellings, for looking them up.
        const SPELLINGS: &[(&str, Keyword)] = &[$(($spelling, Keyword::$variant),)*];
    };
}

/// Longer words cannot be keywords.
const KEYWORD_BYTES_MAX: usize = 14;

impl Keyword {
    /// Finds the keyword a word spells in any case.
    pub fn from_word(word: &str) -> Option<Keyword> {
        let mut upper = [0u8; KEYWORD_BYTES_MAX];
        let upper = upper.get_mut(..word.len())?;
        upper.copy_from_slice(word.as_bytes());
        upper.make_ascii_uppercase();
        match &*upper {
            b"TABLE" => return Some(Keyword::ColumnFamily),
            b"COLUMNFAMILIES" => return Some(Keyword::Tables),
            _ => {}
        }
        let index = SPELLINGS
            .binary_search_by(|(spelling, _)| spelling.as_bytes().cmp(upper))
            .ok()?;
        SPELLINGS.get(index).map(|(_, keyword)| *keyword)
    }
}

keywords! {
    Access "ACCESS" Unreserved,
    Add "ADD" Reserved,
    Aggregate "AGGREGATE" Unreserved,
    Aggregates "AGGREGATES" Unreserved,
    All "ALL" Unreserved,
    Allow "ALLOW" Reserved,
    Alter "ALTER" Reserved,
    And "AND" Reserved,
    Ann "ANN" Unreserved,
    Apply "APPLY" Reserved,
    As "AS" Unreserved,
    Asc "ASC" Reserved,
    Ascii "ASCII" NativeType,
    Authorize "AUTHORIZE" Reserved,
    Batch "BATCH" Reserved,
    Begin "BEGIN" Reserved,
    Bigint "BIGINT" NativeType,
    Blob "BLOB" NativeType,
    Boolean "BOOLEAN" NativeType,
    By "BY" Reserved,
    Called "CALLED" Unreserved,
    Cast "CAST" NotFunction,
    Cidrs "CIDRS" Unreserved,
    Cluster "CLUSTER" Unreserved,
    Clustering "CLUSTERING" Unreserved,
    ColumnFamily "COLUMNFAMILY" Reserved,
    Compact "COMPACT" Unreserved,
    Contains "CONTAINS" Unreserved,
    Count "COUNT" Count,
    Counter "COUNTER" NativeType,
    Create "CREATE" Reserved,
    Custom "CUSTOM" Unreserved,
    Datacenters "DATACENTERS" Unreserved,
    Date "DATE" NativeType,
    Decimal "DECIMAL" NativeType,
    Default "DEFAULT" Unreserved,
    Delete "DELETE" Reserved,
    Desc "DESC" Reserved,
    Describe "DESCRIBE" Reserved,
    Distinct "DISTINCT" NotFunction,
    Double "DOUBLE" NativeType,
    Drop "DROP" Reserved,
    Duration "DURATION" NativeType,
    Entries "ENTRIES" Reserved,
    Execute "EXECUTE" Reserved,
    Exists "EXISTS" Unreserved,
    Filtering "FILTERING" Unreserved,
    FinalFunc "FINALFUNC" Unreserved,
    Float "FLOAT" NativeType,
    From "FROM" Reserved,
    Frozen "FROZEN" Unreserved,
    Full "FULL" Reserved,
    Function "FUNCTION" Unreserved,
    Functions "FUNCTIONS" Unreserved,
    Grant "GRANT" Reserved,
    Group "GROUP" Unreserved,
    Hashed "HASHED" Unreserved,
    Identity "IDENTITY" Unreserved,
    If "IF" Reserved,
    In "IN" Reserved,
    Index "INDEX" Reserved,
    Inet "INET" NativeType,
    InitCond "INITCOND" Unreserved,
    Input "INPUT" Unreserved,
    Insert "INSERT" Reserved,
    Int "INT" NativeType,
    Internals "INTERNALS" Unreserved,
    Into "INTO" Reserved,
    Is "IS" Reserved,
    Json "JSON" NotFunction,
    Key "KEY" NotFunction,
    Keys "KEYS" Unreserved,
    Keyspace "KEYSPACE" Reserved,
    Keyspaces "KEYSPACES" Unreserved,
    Language "LANGUAGE" Unreserved,
    Like "LIKE" Unreserved,
    Limit "LIMIT" Reserved,
    List "LIST" Unreserved,
    Login "LOGIN" Unreserved,
    Map "MAP" Unreserved,
    Masked "MASKED" Unreserved,
    Materialized "MATERIALIZED" Reserved,
    MaxWriteTime "MAXWRITETIME" NotFunction,
    Mbean "MBEAN" Unreserved,
    Mbeans "MBEANS" Unreserved,
    Modify "MODIFY" Reserved,
    NoLogin "NOLOGIN" Unreserved,
    NoRecursive "NORECURSIVE" Reserved,
    NoSuperuser "NOSUPERUSER" Unreserved,
    Not "NOT" Reserved,
    Null "NULL" Reserved,
    Of "OF" Reserved,
    On "ON" Reserved,
    Only "ONLY" Unreserved,
    Options "OPTIONS" Unreserved,
    Or "OR" Reserved,
    Order "ORDER" Reserved,
    Partition "PARTITION" Unreserved,
    Password "PASSWORD" Unreserved,
    Per "PER" Unreserved,
    Permission "PERMISSION" Unreserved,
    Permissions "PERMISSIONS" Unreserved,
    Primary "PRIMARY" Reserved,
    Rename "RENAME" Reserved,
    Replace "REPLACE" Unreserved,
    Returns "RETURNS" Unreserved,
    Revoke "REVOKE" Reserved,
    Role "ROLE" Unreserved,
    Roles "ROLES" Unreserved,
    Schema "SCHEMA" Reserved,
    Select "SELECT" Reserved,
    SelectMasked "SELECT_MASKED" Unreserved,
    Set "SET" Reserved,
    SFunc "SFUNC" Unreserved,
    Smallint "SMALLINT" NativeType,
    Static "STATIC" Unreserved,
    Storage "STORAGE" Unreserved,
    SType "STYPE" Unreserved,
    Superuser "SUPERUSER" Unreserved,
    Tables "TABLES" Unreserved,
    Text "TEXT" NativeType,
    Time "TIME" NativeType,
    Timestamp "TIMESTAMP" NativeType,
    Timeuuid "TIMEUUID" NativeType,
    Tinyint "TINYINT" NativeType,
    To "TO" Reserved,
    Token "TOKEN" Reserved,
    Trigger "TRIGGER" Unreserved,
    Truncate "TRUNCATE" Reserved,
    Ttl "TTL" NotFunction,
    Tuple "TUPLE" Unreserved,
    Type "TYPE" Unreserved,
    Types "TYPES" Unreserved,
    Unlogged "UNLOGGED" Reserved,
    Unmask "UNMASK" Unreserved,
    Unset "UNSET" Unreserved,
    Update "UPDATE" Reserved,
    Use "USE" Reserved,
    User "USER" Unreserved,
    Users "USERS" Unreserved,
    Using "USING" Reserved,
    Uuid "UUID" NativeType,
    Values "VALUES" Unreserved,
    Varchar "VARCHAR" NativeType,
    Varint "VARINT" NativeType,
    Vector "VECTOR" Unreserved,
    View "VIEW" Reserved,
    Where "WHERE" Reserved,
    With "WITH" Reserved,
    WriteTime "WRITETIME" NotFunction,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_are_in_order_and_found_in_any_case() {
        assert!(SPELLINGS.is_sorted_by_key(|(spelling, _)| *spelling));
        for (spelling, keyword) in SPELLINGS {
            assert_eq!(Keyword::from_word(spelling), Some(*keyword));
            assert_eq!(Keyword::from_word(&spelling.to_lowercase()), Some(*keyword));
        }
        assert_eq!(Keyword::from_word("table"), Some(Keyword::ColumnFamily));
        assert_eq!(Keyword::from_word("ColumnFamilies"), Some(Keyword::Tables));
        assert_eq!(Keyword::from_word("selec"), None);
        assert_eq!(Keyword::from_word("a_word_longer_than_any_keyword"), None);
    }
}
