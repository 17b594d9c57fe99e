//! Which slices of a load count: those in which the machine was its own. For every load that is measured here.
//!
//! A virtual machine's hypervisor takes processors away for milliseconds at a time, which is longer than the deadlines that
//! are measured here. The kernel counts that time; a slice in which it grew tells of the neighbours, not of the server.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::run::{ProcessUsage, process_usage_of, stolen_time};

/// The length of a slice, in microseconds: what counts or does not count as a whole.
pub const SLICE_US: u32 = 100_000;

/// Read at the end of each slice of a load, and at its beginning.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    /// The slice had ended long before anyone looked.
    is_late: bool,
    stolen: Duration,
    server: ProcessUsage,
}

pub struct Watch {
    server_pid: Option<u32>,
    from_us: u32,
    /// Slices at the beginning that never count.
    warm_up: usize,
    /// So many slices that count are enough.
    wanted: usize,
    quiet: usize,
    looks: Vec<Look>,
}

/// Slices of a load that count, with their stolen time and the server's use of the machine.
pub struct Counted {
    /// Indexes from the load's beginning on.
    pub slices: Vec<usize>,
    /// Share of one processor's time that was stolen in these slices.
    pub stolen: f64,
    /// The server's, of one core.
    pub server_cpu: Option<f64>,
    pub resident_bytes: Option<u64>,
}

impl Watch {
    pub fn new(server_pid: Option<u32>, from_us: u32, warm_up: usize, wanted: usize) -> Self {
        Watch {
            server_pid,
            from_us,
            warm_up,
            wanted,
            quiet: 0,
            looks: Vec::new(),
        }
    }

    /// To be called all the time; breaks when enough was seen.
    pub fn look(&mut self, now_us: u32) -> ControlFlow<()> {
        let begun = (now_us.saturating_sub(self.from_us) / SLICE_US) as usize;
        if self.looks.len() > begun {
            return ControlFlow::Continue(());
        }
        let server = self.server_pid.map(|pid| process_usage_of(&pid.to_string()));
        let look = Look {
            is_late: false,
            stolen: stolen_time().unwrap_or_default(),
            server: server.unwrap_or_default(),
        };
        self.looked(begun, look)
    }

    fn looked(&mut self, begun: usize, look: Look) -> ControlFlow<()> {
        while self.looks.len() <= begun {
            self.looks.push(Look {
                is_late: self.looks.len() < begun,
                ..look
            });
            let ended = self.looks.len().checked_sub(2);
            self.quiet +=
                usize::from(ended.is_some_and(|slice| slice >= self.warm_up && self.is_quiet(slice)));
        }
        if self.quiet >= self.wanted {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    /// Slices that are over.
    pub fn ended(&self) -> usize {
        self.looks.len().saturating_sub(1)
    }

    /// Returns whether nothing was stolen in a slice, nor in the one before it, whose queue it began with, and this process
    /// was there to see.
    pub fn is_quiet(&self, slice: usize) -> bool {
        let looks = self.looks.get(slice.saturating_sub(1)..slice + 2);
        looks.is_some_and(|looks| {
            let first = looks.first().map(|look| look.stolen);
            looks
                .iter()
                .all(|look| !look.is_late && Some(look.stolen) == first)
        })
    }

    /// The quiet slices; if they are not even a quarter of what is wanted, all.
    pub fn counted(&self) -> Counted {
        let all = self.warm_up..self.looks.len().saturating_sub(1);
        let mut slices: Vec<usize> = all.clone().filter(|slice| self.is_quiet(*slice)).collect();
        if slices.len() * 4 < self.wanted {
            slices = all.collect();
        }
        let length_s = slices.len().max(1) as f64 * f64::from(SLICE_US) / 1e6;
        let sum = |time: fn(&Look) -> Duration| -> f64 {
            let of_slice =
                |slice: &usize| time(&self.looks[slice + 1]).saturating_sub(time(&self.looks[*slice]));
            slices.iter().map(of_slice).sum::<Duration>().as_secs_f64() / length_s
        };
        Counted {
            stolen: sum(|look| look.stolen),
            server_cpu: self.server_pid.map(|_| sum(|look| look.server.cpu)),
            resident_bytes: self
                .server_pid
                .and_then(|_| Some(self.looks.last()?.server.resident_bytes)),
            slices,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at the end of each slice, by the ticks that were stolen in it.
    fn watch(warm_up: usize, wanted: usize, stolen_ticks: &[u64]) -> (Watch, ControlFlow<()>) {
        let mut watch = Watch::new(Some(1), 0, warm_up, wanted);
        let mut look = Look::default();
        let mut flow = watch.looked(0, look);
        for (slice, ticks) in stolen_ticks.iter().enumerate() {
            look.stolen += Duration::from_millis(10 * ticks);
            look.server.cpu += Duration::from_millis(90);
            flow = watch.looked(slice + 1, look);
        }
        (watch, flow)
    }

    #[test]
    fn a_slice_counts_if_nothing_was_stolen_in_it_nor_in_the_one_before() {
        let (watch, flow) = watch(1, 4, &[0, 0, 3, 0, 0, 1, 0, 0]);
        assert_eq!(watch.counted().slices, [1, 4, 7]);
        assert!(flow.is_continue());
        assert_eq!(watch.counted().stolen, 0.0);
        assert!((watch.counted().server_cpu.unwrap() - 0.9).abs() < 1e-9);
    }

    #[test]
    fn it_ends_when_enough_slices_counted() {
        assert!(watch(1, 3, &[0, 0, 0]).1.is_continue());
        assert!(watch(1, 3, &[0, 0, 0, 0]).1.is_break());
    }

    #[test]
    fn a_machine_that_is_never_quiet_is_measured_all_the_same_and_says_so() {
        let (watch, flow) = watch(0, 4, &[1; 8]);
        assert!(flow.is_continue());
        assert_eq!(watch.counted().slices.len(), 8);
        assert!((watch.counted().stolen - 0.1).abs() < 1e-9);
    }

    /// The watcher itself was away from the second slice to the fifth.
    #[test]
    fn slices_that_nobody_saw_end_are_disturbed() {
        let mut watch = Watch::new(None, 0, 0, 8);
        let _flow = watch.looked(0, Look::default());
        let _flow = watch.looked(1, Look::default());
        let stolen = Look {
            stolen: Duration::from_millis(300),
            ..Look::default()
        };
        let _flow = watch.looked(4, stolen);
        let _flow = watch.looked(5, stolen);
        let _flow = watch.looked(6, stolen);
        assert_eq!(watch.quiet, 2);
        assert_eq!(watch.counted().slices, [0, 5]);
    }
}
