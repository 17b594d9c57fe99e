//! One thread that offers a load, closed loop or open loop, over some connections.
//!
//! It never sleeps: it has a core of its own. Requests of an open loop have intended times, evenly spaced; what a
//! socket does not take waits here, encoded only when it is sent, and is given up when its deadline has passed.

use std::io;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use helenus_protocol::request::{BindValues, QueryParameters, write_query};
use helenus_protocol::{Consistency, Opcode};

use super::line::Line;
use super::recorder::Recorder;
use super::wire::{VERSION, WireClient, WireError, frame};
use super::workload::Requests;

/// Between two looks at what is to be sent, in microseconds: a two-hundredth of the deadline.
const TICK_US: u32 = 50;

/// A line has its turn at every so many looks: drivers gather requests for 200 us before they write (the default of gocql and of
/// the C++ driver), or each travels in a segment of its own and the server's core pays for the client's acknowledgements too.
const TICKS_PER_TURN: usize = 4;

/// Between two questions on the control connection, in microseconds.
const CONTROL_US: u32 = 50_000;

/// How long answers are waited for after a load.
const DRAIN: Duration = Duration::from_secs(5);

/// Writes to one socket before the others get their turn.
const WRITES_PER_TURN_MAX: u32 = 4;

/// A steady load.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    pub per_s: f64,
    pub length: Duration,
}

/// When the requests of one line are to be sent.
#[derive(Clone, Copy, Debug, Default)]
struct Schedule {
    next_us: f64,
    interval_us: f64,
    /// The socket took not everything when it was last tried.
    is_blocked: bool,
}

pub struct Load {
    address: SocketAddr,
    pub requests: Requests,
    lines: Vec<Line>,
    schedules: Vec<Schedule>,
    control: Line,
    control_frames: [Vec<u8>; 2],
    control_at_us: u32,
    tick: usize,
    began: Instant,
    deadline_us: u32,
    in_flight_max: usize,
}

impl Load {
    pub fn new(
        address: SocketAddr,
        requests: Requests,
        connections: usize,
        in_flight_max: usize,
        deadline: Duration,
    ) -> Result<Load, WireError> {
        let parameters = QueryParameters::new(Consistency::One);
        let local = frame(Opcode::Query, |out| {
            let text = "SELECT * FROM system.local WHERE key='local'";
            write_query(out, VERSION, text, &parameters, BindValues::NONE);
        })?;
        Ok(Load {
            address,
            requests,
            lines: lines(address, connections, in_flight_max)?,
            schedules: vec![Schedule::default(); connections],
            control: Line::new(
                WireClient::connect(address, true)?.into_stream()?,
                0,
                in_flight_max,
            ),
            control_frames: [frame(Opcode::Options, |_| {})?, local],
            control_at_us: 0,
            tick: 0,
            began: Instant::now(),
            deadline_us: deadline.as_micros() as u32,
            in_flight_max,
        })
    }

    /// The load's clock: an hour fits.
    pub fn now_us(&self) -> u32 {
        self.began.elapsed().as_micros() as u32
    }

    /// Keeps `in_flight` requests on each line, for `length` or until `look` has seen enough.
    pub fn closed(
        &mut self,
        in_flight: usize,
        length: Duration,
        recorder: &mut Recorder,
        mut look: impl FnMut(u32) -> ControlFlow<()>,
    ) -> Result<(), WireError> {
        let until_us = self.now_us() + length.as_micros() as u32;
        loop {
            let now_us = self.now_us();
            if look(now_us).is_break() || now_us >= until_us {
                break;
            }
            for line in &mut self.lines {
                while line.outstanding() < in_flight && line.has_room() && line.push(&self.requests, now_us) {
                    recorder.sent(now_us);
                }
                line.send()?;
            }
            self.receive(recorder)?;
        }
        self.drain(recorder)?;
        Ok(())
    }

    /// Offers one phase after the other, until `look` has seen enough; it is called all the time. `recorder` is for a load
    /// that begins at [`Load::now_us`].
    pub fn open(
        &mut self,
        phases: &[Phase],
        recorder: &mut Recorder,
        mut look: impl FnMut(u32) -> ControlFlow<()>,
    ) -> Result<(), WireError> {
        let mut phase_us = self.now_us();
        self.control_at_us = phase_us;
        for phase in phases {
            let until_us = phase_us + phase.length.as_micros() as u32;
            self.schedule(phase_us, 1e6 / phase.per_s);
            if self.offer_until(until_us, recorder, &mut look)?.is_break() {
                break;
            }
            for schedule in &mut self.schedules {
                schedule.give_up(f64::from(until_us), recorder);
            }
            phase_us = until_us;
        }
        self.drain(recorder)?;
        let is_clean = self.lines.iter().all(|line| line.outstanding() == 0);
        if !is_clean {
            self.lines = lines(self.address, self.lines.len(), self.in_flight_max)?;
        }
        Ok(())
    }

    fn schedule(&mut self, from_us: u32, interval_us: f64) {
        let count = self.lines.len() as f64;
        for (index, schedule) in self.schedules.iter_mut().enumerate() {
            schedule.next_us = f64::from(from_us) + index as f64 * interval_us;
            schedule.interval_us = interval_us * count;
        }
    }

    fn offer_until(
        &mut self,
        until_us: u32,
        recorder: &mut Recorder,
        look: &mut impl FnMut(u32) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, WireError> {
        let mut tick_us = 0;
        loop {
            let now_us = self.now_us();
            if look(now_us).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            if now_us >= until_us {
                return Ok(ControlFlow::Continue(()));
            }
            if now_us >= tick_us {
                tick_us = now_us + TICK_US;
                self.offer(recorder)?;
                self.ask(recorder)?;
            }
            self.receive(recorder)?;
            while self.now_us() < now_us + TICK_US / 4 {
                std::hint::spin_loop();
            }
        }
    }

    /// Sends what is due, as far as the sockets take it.
    fn offer(&mut self, recorder: &mut Recorder) -> io::Result<()> {
        self.tick = (self.tick + 1) % TICKS_PER_TURN;
        let lines = self.lines.iter_mut().zip(&mut self.schedules);
        for (line, schedule) in lines.skip(self.tick).step_by(TICKS_PER_TURN) {
            for _ in 0..WRITES_PER_TURN_MAX {
                line.send()?;
                let now_us = f64::from(self.began.elapsed().as_micros() as u32);
                schedule.give_up(now_us - f64::from(self.deadline_us), recorder);
                schedule.is_blocked = !line.is_flushed();
                if schedule.is_blocked || schedule.next_us > now_us {
                    break;
                }
                while schedule.next_us <= now_us && line.has_room() {
                    let intended_us = schedule.next_us as u32;
                    if !line.push(&self.requests, intended_us) {
                        schedule.is_blocked = true;
                        break;
                    }
                    recorder.sent(intended_us);
                    schedule.next_us += schedule.interval_us;
                }
                line.send()?;
                for _ in 0..line.take_back_unsent() {
                    schedule.next_us -= schedule.interval_us;
                    recorder.taken_back(schedule.next_us as u32);
                }
                if schedule.is_blocked {
                    break;
                }
            }
        }
        Ok(())
    }

    /// What a driver asks for all the time, beside the load.
    fn ask(&mut self, recorder: &mut Recorder) -> io::Result<()> {
        let now_us = self.now_us();
        if now_us >= self.control_at_us {
            let which = (self.control_at_us / CONTROL_US) as usize % 2;
            self.control
                .push_frame(&self.control_frames[which], self.control_at_us);
            self.control_at_us += CONTROL_US;
        }
        self.control.send()?;
        self.control
            .receive(|intended_us, _| recorder.control_answered(intended_us, now_us))?;
        Ok(())
    }

    fn receive(&mut self, recorder: &mut Recorder) -> io::Result<()> {
        for line in &mut self.lines {
            if line.outstanding() == 0 {
                continue;
            }
            let began = self.began;
            let mut now_us = None;
            line.receive(|intended_us, kind| {
                let now_us = *now_us.get_or_insert_with(|| began.elapsed().as_micros() as u32);
                recorder.answered(intended_us, now_us, kind);
            })?;
        }
        Ok(())
    }

    /// Waits for answers, so that the next load begins with idle connections.
    fn drain(&mut self, recorder: &mut Recorder) -> io::Result<()> {
        let began = Instant::now();
        let is_busy = |lines: &[Line]| lines.iter().any(|line| line.outstanding() > 0);
        while is_busy(&self.lines) && began.elapsed() < DRAIN {
            for line in &mut self.lines {
                line.send()?;
            }
            self.receive(recorder)?;
            self.ask(recorder)?;
        }
        Ok(())
    }
}

impl Schedule {
    /// Skips what was to be sent before `late_us`.
    fn give_up(&mut self, late_us: f64, recorder: &mut Recorder) {
        while self.next_us < late_us {
            recorder.unsent(self.next_us as u32, self.is_blocked);
            self.next_us += self.interval_us;
        }
    }
}

fn lines(address: SocketAddr, count: usize, in_flight_max: usize) -> Result<Vec<Line>, WireError> {
    let line = |seed| {
        let stream = WireClient::connect(address, true)?.into_stream()?;
        Ok(Line::new(stream, seed as u64, in_flight_max))
    };
    (1..=count).map(line).collect()
}
