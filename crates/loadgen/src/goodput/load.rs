//! One thread that offers a load, closed loop or open loop, over some connections.
//!
//! It never sleeps: it has a core of its own. Requests of an open loop are due at evenly spaced moments, whatever became of those before
//! them; each is encoded when it is due and given to its socket, and latency counts from when it was due. So nothing that the server does
//! keeps a request from being counted: no stream left is a request that was not sent in time, and so is one that came too late out of
//! this process.

use std::io;
use std::net::SocketAddr;
use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};

use helenus_protocol::request::{BindValues, QueryParameters, write_query};
use helenus_protocol::{Consistency, Opcode};

use super::line::{AnswerKind, Line};
use super::recorder::Recorder;
use super::wire::{Login, VERSION, WireClient, WireError, frame};
use super::workload::Requests;

/// Between two looks at the sockets, in microseconds: a look at sixteen that have nothing to say takes some five.
const LOOK_US: u32 = 12;

/// Between two questions on the control connection, in microseconds.
const CONTROL_US: u32 = 50_000;

/// How long answers are waited for after a load. What is not there by then is late by any deadline.
const DRAIN: Duration = Duration::from_secs(1);

/// How long a server is given to forget what was asked of it on connections that were closed.
const SETTLE_MAX: Duration = Duration::from_secs(20);

/// So many answers in time, one after the other, mean that it has.
const SETTLED: u32 = 20;

/// Which connections there are, and how they are used.
#[derive(Clone, Debug)]
pub struct Connections {
    /// One for each connection.
    pub logins: Vec<Option<Login>>,
    /// Requests without an answer on one of them.
    pub in_flight_max: usize,
    pub throws_on_overload: bool,
    /// How long requests are gathered before they are written.
    pub gather: Duration,
}

/// Requests of one kind, and the connections that they take in turns.
#[derive(Clone, Debug)]
pub struct Part {
    pub requests: Requests,
    pub lines: Range<usize>,
}

/// A steady load: so many requests of each part a second.
#[derive(Clone, Debug)]
pub struct Phase {
    pub per_s: Vec<f64>,
    pub length: Duration,
}

/// When the requests of a part are due.
#[derive(Clone, Copy, Debug, Default)]
struct Schedule {
    from_us: f64,
    /// Infinite for a part that is silent.
    interval_us: f64,
    issued: u64,
    next_us: f64,
    /// Index of the line whose turn it is, among the part's lines.
    line: usize,
}

impl Schedule {
    fn new(from_us: u32, per_s: f64) -> Self {
        let interval_us = if per_s > 0.0 { 1e6 / per_s } else { f64::INFINITY };
        let mut schedule = Schedule {
            from_us: f64::from(from_us),
            interval_us,
            ..Schedule::default()
        };
        schedule.next_us = if per_s > 0.0 {
            schedule.from_us
        } else {
            f64::INFINITY
        };
        schedule
    }

    /// Counted from the beginning, so that no rounding adds up.
    #[inline]
    fn advance(&mut self, line_count: usize) {
        self.issued += 1;
        self.next_us = self.from_us + self.issued as f64 * self.interval_us;
        self.line += 1;
        if self.line >= line_count {
            self.line = 0;
        }
    }
}

pub struct Load {
    address: SocketAddr,
    connections: Connections,
    parts: Vec<Part>,
    lines: Vec<Line>,
    schedules: Vec<Schedule>,
    control: Line,
    control_frames: [Vec<u8>; 2],
    control_at_us: u32,
    send_at_us: u32,
    began: Instant,
    deadline_us: u32,
    pause_us_max: u32,
}

impl Load {
    pub fn new(
        address: SocketAddr,
        parts: Vec<Part>,
        connections: Connections,
        deadline: Duration,
    ) -> Result<Load, WireError> {
        let parameters = QueryParameters::new(Consistency::One);
        let local = frame(Opcode::Query, |out| {
            let text = "SELECT * FROM system.local WHERE key='local'";
            write_query(out, VERSION, text, &parameters, BindValues::NONE);
        })?;
        Ok(Load {
            address,
            schedules: vec![Schedule::default(); parts.len()],
            lines: lines(address, &connections)?,
            control: control(address, &connections)?,
            control_frames: [frame(Opcode::Options, |_| {})?, local],
            control_at_us: 0,
            send_at_us: 0,
            began: Instant::now(),
            deadline_us: deadline.as_micros() as u32,
            pause_us_max: 0,
            connections,
            parts,
        })
    }

    /// The load's clock: an hour fits.
    pub fn now_us(&self) -> u32 {
        self.began.elapsed().as_micros() as u32
    }

    /// The longest time of an open loop, since this was last asked, in which this thread did not look at what is due: what the machine
    /// took from it, or what one look lasted. Requests that were due meanwhile count as long as they waited.
    pub(crate) fn take_pause_us_max(&mut self) -> u32 {
        std::mem::take(&mut self.pause_us_max)
    }

    pub fn part_count(&self) -> usize {
        self.parts.len()
    }

    /// Keeps `in_flight` requests of the first part on each of its lines, for `length` or until `look` has seen enough.
    pub fn closed(
        &mut self,
        in_flight: usize,
        length: Duration,
        recorder: &mut Recorder,
        mut look: impl FnMut(u32) -> ControlFlow<()>,
    ) -> Result<(), WireError> {
        let until_us = self.now_us() + length.as_micros() as u32;
        let Some(part) = self.parts.first() else {
            return Ok(());
        };
        loop {
            let now_us = self.began.elapsed().as_micros() as u32;
            if look(now_us).is_break() || now_us >= until_us {
                break;
            }
            for line in &mut self.lines[part.lines.clone()] {
                while line.outstanding() < in_flight && line.push(&part.requests, 0, now_us) {
                    recorder.sent(now_us);
                }
                line.send()?;
            }
            receive(&mut self.lines, self.began, std::slice::from_mut(recorder))?;
        }
        self.end(std::slice::from_mut(recorder))
    }

    /// Offers one phase after the other, until `look` has seen enough; it is called all the time. There is a recorder for each part, for a
    /// load that begins at [`Load::now_us`].
    pub fn open(
        &mut self,
        phases: &[Phase],
        recorders: &mut [Recorder],
        mut look: impl FnMut(u32) -> ControlFlow<()>,
    ) -> Result<(), WireError> {
        let mut phase_us = self.now_us();
        self.control_at_us = phase_us;
        for phase in phases {
            for (schedule, per_s) in self.schedules.iter_mut().zip(&phase.per_s) {
                *schedule = Schedule::new(phase_us, *per_s);
            }
            phase_us += phase.length.as_micros() as u32;
            if self.offer_until(phase_us, recorders, &mut look)?.is_break() {
                break;
            }
        }
        self.end(recorders)
    }

    fn offer_until(
        &mut self,
        until_us: u32,
        recorders: &mut [Recorder],
        look: &mut impl FnMut(u32) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, WireError> {
        let gather_us = self.connections.gather.as_micros() as u32;
        let mut before_us = self.now_us();
        loop {
            let now_us = self.now_us();
            self.pause_us_max = self.pause_us_max.max(now_us - before_us);
            before_us = now_us;
            if look(now_us).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            self.issue(now_us.min(until_us), recorders);
            if now_us >= self.send_at_us {
                self.send_at_us = now_us + gather_us;
                for line in &mut self.lines {
                    line.send()?;
                }
                self.ask(recorders)?;
            }
            if now_us >= until_us {
                return Ok(ControlFlow::Continue(()));
            }
            receive(&mut self.lines, self.began, recorders)?;
            while self.now_us() < now_us + LOOK_US {
                std::hint::spin_loop();
            }
        }
    }

    /// Encodes what is due before `until_us`.
    fn issue(&mut self, until_us: u32, recorders: &mut [Recorder]) {
        let until = f64::from(until_us);
        let late = until - f64::from(self.deadline_us);
        let parts = self.parts.iter().zip(&mut self.schedules).zip(recorders);
        for (number, ((part, schedule), recorder)) in parts.enumerate() {
            let lines = &mut self.lines[part.lines.clone()];
            while schedule.next_us < until {
                let due_us = schedule.next_us as u32;
                if schedule.next_us < late {
                    recorder.unsent(due_us, false);
                } else if lines[schedule.line].push(&part.requests, number as u8, due_us) {
                    recorder.sent(due_us);
                } else {
                    recorder.unsent(due_us, true);
                }
                schedule.advance(lines.len());
            }
        }
    }

    /// Sends the requests that a driver makes all the time, beside the load, and takes their answers.
    fn ask(&mut self, recorders: &mut [Recorder]) -> io::Result<()> {
        let now_us = self.now_us();
        if now_us >= self.control_at_us {
            let which = (self.control_at_us / CONTROL_US) as usize % 2;
            self.control
                .push_frame(&self.control_frames[which], 0, self.control_at_us);
            self.control_at_us += CONTROL_US;
        }
        self.control.send()?;
        let Some(recorder) = recorders.first_mut() else {
            return Ok(());
        };
        self.control
            .receive(|_, due_us, _| recorder.control_answered(due_us, now_us))?;
        Ok(())
    }

    /// Waits for answers, so that the next load begins with idle connections. What has none counts as late, and its connections are
    /// closed.
    fn end(&mut self, recorders: &mut [Recorder]) -> Result<(), WireError> {
        let began = Instant::now();
        let is_busy = |lines: &[Line]| lines.iter().any(|line| line.outstanding() > 0);
        while is_busy(&self.lines) && began.elapsed() < DRAIN {
            for line in &mut self.lines {
                line.send()?;
            }
            receive(&mut self.lines, self.began, recorders)?;
            self.ask(recorders)?;
        }
        if !is_busy(&self.lines) {
            return Ok(());
        }
        let now_us = self.now_us();
        for (part, due_us) in self.lines.iter().flat_map(Line::unanswered) {
            if let Some(recorder) = recorders.get_mut(usize::from(part)) {
                recorder.unanswered(due_us, now_us);
            }
        }
        // Both: the control connection's questions wait behind the others'.
        self.lines.clear();
        self.settle()?;
        self.lines = lines(self.address, &self.connections)?;
        self.control = control(self.address, &self.connections)?;
        Ok(())
    }

    /// Waits until the server answers in time again what it is asked one by one.
    fn settle(&self) -> Result<(), WireError> {
        let Some(part) = self.parts.first() else {
            return Ok(());
        };
        let mut line = control(self.address, &self.connections)?;
        let began = Instant::now();
        let mut in_time = 0;
        while in_time < SETTLED && began.elapsed() < SETTLE_MAX {
            let asked = Instant::now();
            line.push(&part.requests, 0, 1);
            let mut is_done = false;
            while line.outstanding() > 0 && began.elapsed() < SETTLE_MAX {
                line.send()?;
                line.receive(|_, _, kind| is_done = kind == AnswerKind::Done)?;
            }
            let is_in_time = is_done && asked.elapsed().as_micros() <= u128::from(self.deadline_us);
            in_time = if is_in_time { in_time + 1 } else { 0 };
        }
        Ok(())
    }
}

fn receive(lines: &mut [Line], began: Instant, recorders: &mut [Recorder]) -> io::Result<()> {
    for line in lines {
        if line.outstanding() == 0 {
            continue;
        }
        let mut now_us = None;
        line.receive(|part, due_us, kind| {
            let now_us = *now_us.get_or_insert_with(|| began.elapsed().as_micros() as u32);
            if let Some(recorder) = recorders.get_mut(usize::from(part)) {
                recorder.answered(due_us, now_us, kind);
            }
        })?;
    }
    Ok(())
}

fn lines(address: SocketAddr, connections: &Connections) -> Result<Vec<Line>, WireError> {
    let logins = connections.logins.iter().zip(1_u64..);
    logins
        .map(|(login, seed)| line(address, connections, login.as_ref(), seed))
        .collect()
}

/// As the drivers' own, it asks for what the others ask for.
fn control(address: SocketAddr, connections: &Connections) -> Result<Line, WireError> {
    let login = connections.logins.first().and_then(Option::as_ref);
    line(address, connections, login, 0)
}

fn line(
    address: SocketAddr,
    connections: &Connections,
    login: Option<&Login>,
    seed: u64,
) -> Result<Line, WireError> {
    let client = WireClient::connect(address, connections.throws_on_overload, login)?;
    Ok(Line::new(client.into_stream()?, seed, connections.in_flight_max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_due_evenly_and_no_rounding_adds_up() {
        let mut schedule = Schedule::new(1_000, 3_000_000.0);
        let mut turns = [0_u32; 16];
        for _ in 0..3_000_000 {
            turns[schedule.line] += 1;
            schedule.advance(16);
        }
        assert!(
            (schedule.next_us - 1_001_000.0).abs() < 1e-3,
            "{}",
            schedule.next_us
        );
        assert!(turns.iter().all(|count| *count == 187_500), "{turns:?}");
    }

    #[test]
    fn a_part_without_requests_is_never_due() {
        assert_eq!(Schedule::new(1_000, 0.0).next_us, f64::INFINITY);
    }
}
