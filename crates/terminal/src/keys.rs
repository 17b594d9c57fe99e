//! Keys that end a page.

const INTERRUPT: u8 = 0x03;
const ESCAPE: u8 = 0x1b;

/// Returns whether `q`, Escape or Ctrl-C is among what a terminal has sent. Arrows and others begin with an escape, too, and have
/// more in the same piece.
pub(crate) fn has_quit(typed: &[u8]) -> bool {
    match typed {
        [] => false,
        [ESCAPE] => true,
        [ESCAPE, b'[' | b'O', rest @ ..] => {
            let end = rest.iter().position(|byte| (0x40..=0x7e).contains(byte));
            end.is_some_and(|end| has_quit(&rest[end + 1..]))
        }
        [ESCAPE, _, rest @ ..] => has_quit(rest),
        [b'q' | INTERRUPT, ..] => true,
        [_, rest @ ..] => has_quit(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::has_quit;

    #[test]
    fn only_the_keys_that_end_a_page_end_it() {
        for typed in [
            &b"q"[..],
            b"\x03",
            b"\x1b",
            b"xyzq",
            b"\x1b[A\x1b[1;5Bq",
            b"\x1b[A\x1b",
        ] {
            assert!(has_quit(typed), "{typed:?}");
        }
        for typed in [
            &b""[..],
            b"x",
            b"\x1b[A",
            b"\x1bOP",
            b"\x1b[1;5B",
            b"\x1b[",
            b"\x1bq",
        ] {
            assert!(!has_quit(typed), "{typed:?}");
        }
    }
}
