//! Names shared by many sessions (tenants, graphs, nodes, shapes, facts of failures): each stands once in memory, and
//! goes with the last session that uses it. Numbers are of this process only: no state entry holds one.

use std::hash::BuildHasher;

use foldhash::quality::FixedState;
use hashbrown::HashTable;

/// Names in use, by number and by text.
#[derive(Debug, Default)]
pub struct Names {
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_text: HashTable<u32>,
}

#[derive(Debug, Default)]
struct Slot {
    text: Box<str>,
    uses: u32,
}

impl Names {
    /// The number of a name, with one more use of it.
    pub fn take(&mut self, text: &str) -> u32 {
        let slots = &mut self.slots;
        let found = self.by_text.find(hash(text), |number| &*slots[*number as usize].text == text);
        if let Some(&number) = found {
            slots[number as usize].uses += 1;
            return number;
        }
        let slot = Slot { text: text.into(), uses: 1 };
        let number = if let Some(number) = self.free.pop() {
            slots[number as usize] = slot;
            number
        } else {
            slots.push(slot);
            u32::try_from(slots.len() - 1).unwrap_or(u32::MAX)
        };
        self.by_text.insert_unique(hash(text), number, |number| hash(&slots[*number as usize].text));
        number
    }

    /// The name of a number.
    #[must_use]
    pub fn get(&self, number: u32) -> &str {
        self.slots.get(number as usize).map_or("", |slot| &slot.text)
    }

    /// One use less.
    pub fn release(&mut self, number: u32) {
        let Some(slot) = self.slots.get_mut(number as usize) else { return };
        slot.uses = slot.uses.saturating_sub(1);
        if slot.uses > 0 {
            return;
        }
        let text = std::mem::take(&mut slot.text);
        if let Ok(entry) = self.by_text.find_entry(hash(&text), |known| *known == number) {
            entry.remove();
            self.free.push(number);
        }
    }

    /// How many names are in use.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_text.len()
    }

    /// Whether no name is in use.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_text.is_empty()
    }
}

/// Hash of a name; the same in every process.
#[must_use]
pub fn hash(text: &str) -> u64 {
    FixedState::with_seed(0).hash_one(text)
}

#[cfg(test)]
mod tests {
    use super::Names;

    #[test]
    fn a_name_stands_once_and_goes_with_its_last_use() {
        let mut names = Names::default();
        let (first, again, other) = (names.take("a"), names.take("a"), names.take(""));
        assert_eq!((first, names.len(), names.get(other)), (again, 2, ""));
        names.release(first);
        assert_eq!(names.get(first), "a");
        names.release(first);
        names.release(first);
        assert_eq!(names.len(), 1);
        assert_eq!(names.take("b"), first, "its number is used again");
    }
}
