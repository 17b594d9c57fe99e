//! The page about errors names every kind, with its code.

use super::CqlError;

/// A kind that is added to the type does not compile until it is added here, and fails below until the page has it.
macro_rules! kinds {
    ($($kind:ident),*) => {
        const KINDS: &[&str] = &[$(stringify!($kind)),*];

        #[expect(dead_code, reason = "compiled, never called: it is exhaustive")]
        fn every_kind_is_listed(error: &CqlError) {
            match error {
                $(CqlError::$kind { .. } => {})*
            }
        }
    };
}

kinds!(
    Syntax,
    SyntaxRule,
    BadCredentials,
    Invalid,
    MarkerCount,
    Unauthorized,
    Config,
    AlreadyExists,
    Unprepared,
    FunctionFailure,
    Truncate,
    Overloaded,
    Unavailable,
    ReadTimeout,
    WriteTimeout,
    CasWriteTimeout,
    CasWriteUnknown,
    CdcWriteFailure,
    RateLimited,
    ReadFailure,
    WriteFailure,
    Protocol,
    Server
);

#[test]
fn every_kind_of_error_and_every_code_is_on_its_page() {
    let page = include_str!("../../../../docs/coding/errors.md");
    for kind in KINDS {
        assert!(
            page.contains(&format!("| `{kind}` |")),
            "docs/coding/errors.md lacks {kind}"
        );
    }
    for code in helenus_protocol::ErrorCode::ALL {
        assert!(
            page.contains(&format!("| {code:?} |")),
            "docs/coding/errors.md lacks {code:?}"
        );
    }
}
