//! A list of nearly always one element, which then takes nothing from the heap.

#[derive(Clone, Debug)]
pub enum Few<T> {
    One(T),
    Several(Vec<T>),
}

impl<T> Few<T> {
    pub const fn new() -> Self {
        Few::Several(Vec::new())
    }

    pub fn as_slice(&self) -> &[T] {
        match self {
            Few::One(element) => std::slice::from_ref(element),
            Few::Several(elements) => elements,
        }
    }

    pub fn as_mut_slice(&mut self) -> &mut [T] {
        match self {
            Few::One(element) => std::slice::from_mut(element),
            Few::Several(elements) => elements,
        }
    }

    pub fn push(&mut self, element: T) {
        self.insert(self.as_slice().len(), element);
    }

    /// `place` is at most its length.
    pub fn insert(&mut self, place: usize, element: T) {
        if self.as_slice().is_empty() {
            *self = Few::One(element);
            return;
        }
        *self = match std::mem::replace(self, Few::new()) {
            Few::Several(mut elements) => {
                elements.insert(place, element);
                Few::Several(elements)
            }
            Few::One(first) if place == 0 => Few::Several(vec![element, first]),
            Few::One(first) => Few::Several(vec![first, element]),
        };
    }

    /// Collects all of them, or returns the first error.
    pub fn of_results<E>(mut elements: impl Iterator<Item = Result<T, E>>) -> Result<Self, E> {
        let mut few = match elements.next() {
            None => return Ok(Few::new()),
            Some(first) => Few::One(first?),
        };
        few.try_extend(elements)?;
        Ok(few)
    }

    /// Adds all of them, or those before the first error.
    pub fn try_extend<E>(&mut self, elements: impl Iterator<Item = Result<T, E>>) -> Result<(), E> {
        for element in elements {
            self.push(element?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Few;

    #[test]
    fn elements_are_where_they_were_inserted() {
        for places in [&[0, 0, 0, 0][..], &[0, 1, 2, 3], &[0, 1, 0, 2], &[0, 0, 1, 1]] {
            let (mut few, mut model) = (Few::new(), Vec::new());
            for (element, place) in places.iter().enumerate() {
                few.insert(*place, element);
                model.insert(*place, element);
                assert_eq!(few.as_slice(), model);
            }
            few.push(9);
            model.push(9);
            assert_eq!(few.as_mut_slice(), model);
        }
    }
}
