//! Workers without threads: what a thread would do is done when the weather says, on the one thread of the simulation.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use helenus_vfs::threads::{Jobs, Running, Threads, Urgency};

use crate::weather::Weather;

#[derive(Debug)]
pub struct SimulatedThreads {
    weather: Arc<Weather>,
}

struct SimulatedThread {
    jobs: Arc<Mutex<Box<dyn Jobs>>>,
    weather: Arc<Weather>,
    urgency: Urgency,
}

impl SimulatedThreads {
    pub fn new(weather: Arc<Weather>) -> Self {
        SimulatedThreads { weather }
    }
}

impl Threads for SimulatedThreads {
    fn start(&self, _name: String, urgency: Urgency, jobs: Box<dyn Jobs>) -> io::Result<Box<dyn Running>> {
        Ok(Box::new(SimulatedThread {
            jobs: Arc::new(Mutex::new(jobs)),
            weather: self.weather.clone(),
            urgency,
        }))
    }

    fn give_way(&self) {}
}

fn do_next(jobs: &Mutex<Box<dyn Jobs>>) -> bool {
    jobs.lock().unwrap_or_else(PoisonError::into_inner).try_and_do()
}

impl Running for SimulatedThread {
    /// The job waits as long as doing it takes; it is done in no time at the end.
    fn job_sent(&self) {
        let jobs = self.jobs.clone();
        let took = match self.urgency {
            Urgency::Answers => self.weather.log(),
            Urgency::GivesWay => self.weather.background(),
        };
        tokio::spawn(async move {
            tokio::time::sleep(took).await;
            do_next(&jobs);
        });
    }

    fn finish(&mut self) {
        while do_next(&self.jobs) {}
    }
}
