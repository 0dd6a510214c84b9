//! The search for an input that leads to a record no broker takes: transactions of half the inputs, and half of that,
//! until one input is alone in one. That one becomes a dead letter; everything else goes on.

/// How many inputs the next transaction may hold.
#[derive(Debug)]
pub struct Search {
    inputs_max: usize,
    narrowed: Option<usize>,
}

impl Search {
    /// Nothing to look for.
    pub fn new(inputs_max: usize) -> Self {
        Self { inputs_max, narrowed: None }
    }

    /// Most inputs of the next transaction.
    pub fn inputs_max(&self) -> usize {
        self.narrowed.unwrap_or(self.inputs_max)
    }

    /// A transaction of so many inputs was refused; false where there is nothing left to halve.
    #[must_use]
    pub fn narrow(&mut self, inputs: usize) -> bool {
        self.narrowed = (inputs > 0).then_some((inputs / 2).max(1));
        inputs > 0
    }

    /// The input was found.
    pub fn found(&mut self) {
        self.narrowed = None;
    }

    /// A transaction of so many inputs was committed. What is looked for may be gone (a limit was raised meanwhile): twice
    /// as many the next time.
    pub fn committed(&mut self, inputs: usize) {
        if inputs > 0 {
            let doubled = self.narrowed.map(|narrowed| narrowed.saturating_mul(2));
            self.narrowed = doubled.filter(|doubled| *doubled < self.inputs_max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_are_halved_until_one_input_is_alone_and_grow_again() {
        let mut search = Search::new(1000);
        assert_eq!(search.inputs_max(), 1000);
        let mut inputs = 700;
        let mut halvings = 0;
        while search.inputs_max() > 1 {
            assert!(search.narrow(inputs));
            inputs = search.inputs_max();
            halvings += 1;
        }
        assert_eq!(halvings, 9);
        search.committed(1);
        assert_eq!(search.inputs_max(), 2);
        search.found();
        assert_eq!(search.inputs_max(), 1000);
        assert!(!search.narrow(0));
    }
}
