//! Names by which somebody writes what is known of views: another view of a name waits until nobody does.
//!
//! How far a view is built is told in rows that have its name and not its id. What was begun for a view that is dropped would write
//! them for the view that is made in its place, which then would lack rows and be said to be built.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::Notify;

/// Keyspace and view.
type Name = (Arc<str>, Arc<str>);

#[derive(Default)]
pub(crate) struct ViewNames {
    users: Rc<Users>,
}

#[derive(Default)]
struct Users {
    /// As many as there are views, and truncations of their tables.
    counts: RefCell<HashMap<Name, u32>>,
    given_back: Notify,
}

/// A name that somebody writes of, until it is dropped.
pub(crate) struct UsedName {
    users: Rc<Users>,
    name: Name,
}

impl ViewNames {
    pub fn take(&self, keyspace: &Arc<str>, view: &Arc<str>) -> UsedName {
        let name = (keyspace.clone(), view.clone());
        *self.users.counts.borrow_mut().entry(name.clone()).or_default() += 1;
        UsedName {
            users: self.users.clone(),
            name,
        }
    }

    /// Waits until nobody writes of a name.
    pub async fn unused(&self, keyspace: &Arc<str>, view: &Arc<str>) {
        let name = (keyspace.clone(), view.clone());
        loop {
            let given_back = self.users.given_back.notified();
            if !self.users.counts.borrow().contains_key(&name) {
                return;
            }
            given_back.await;
        }
    }
}

impl Drop for UsedName {
    fn drop(&mut self) {
        let mut counts = self.users.counts.borrow_mut();
        if let Some(count) = counts.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.name);
                self.users.given_back.notify_waiters();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn a_name_is_unused_once_all_have_given_it_back() {
        let names = ViewNames::default();
        let (keyspace, view, other): (Arc<str>, Arc<str>, Arc<str>) = ("k".into(), "v".into(), "w".into());
        let mut context = Context::from_waker(Waker::noop());
        let (first, second) = (names.take(&keyspace, &view), names.take(&keyspace, &view));
        let mut unused = pin!(names.unused(&keyspace, &view));
        assert!(unused.as_mut().poll(&mut context).is_pending());
        assert!(
            pin!(names.unused(&keyspace, &other))
                .poll(&mut context)
                .is_ready()
        );
        drop(first);
        assert!(unused.as_mut().poll(&mut context).is_pending());
        drop(second);
        assert!(unused.as_mut().poll(&mut context).is_ready());
    }
}
