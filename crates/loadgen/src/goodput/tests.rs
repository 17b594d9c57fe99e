//! The generator against a canned server, whose answers are known by number: nothing here depends on how fast a machine is.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::Duration;

use helenus_protocol::{ErrorCode, Opcode};

use super::load::{Connections, Load, Part, Phase};
use super::recorder::{Recorder, Sums};
use super::report::{Disturbance, DisturbedWindow, Recovery};
use super::workload::{Requests, prepare};
use super::*;

/// Canned answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Canned {
    Rows,
    Overloaded,
    WriteTimeout,
    /// None at all.
    Silence,
}

/// Asked for the number of a connection and that of an EXECUTE on it.
type Policy = Arc<dyn Fn(usize, usize) -> Canned + Send + Sync>;

/// Where a server listens that answers by a policy.
fn canned(policy: impl Fn(usize, usize) -> Canned + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let policy: Policy = Arc::new(policy);
    std::thread::spawn(move || {
        for (connection, stream) in listener.incoming().map_while(Result::ok).enumerate() {
            let policy = Arc::clone(&policy);
            // Ends with its client.
            std::thread::spawn(move || serve(stream, |number| policy(connection, number)));
        }
    });
    address
}

fn serve(mut stream: TcpStream, policy: impl Fn(usize) -> Canned) -> std::io::Result<()> {
    let (mut input, mut executed) = (Vec::new(), 0);
    let mut chunk = [0; 64 * 1024];
    loop {
        let count = stream.read(&mut chunk)?;
        if count == 0 {
            return Ok(());
        }
        input.extend_from_slice(&chunk[..count]);
        let (mut at, mut out) = (0, Vec::new());
        while let Some(header) = input[at..].first_chunk::<9>() {
            let length = u32::from_be_bytes([header[5], header[6], header[7], header[8]]) as usize;
            if input.len() - at < 9 + length {
                break;
            }
            let stream_id = [header[2], header[3]];
            match header[4] {
                1 => answer(&mut out, stream_id, Opcode::Ready, &[]),
                5 => answer(&mut out, stream_id, Opcode::Supported, &[0; 4]),
                9 => answer(&mut out, stream_id, Opcode::Result, &[0, 0, 0, 4, 0, 1, 7]),
                10 => {
                    let error = |code: ErrorCode| [&(code as i32).to_be_bytes()[..], &[0, 0]].concat();
                    match policy(executed) {
                        Canned::Rows => answer(&mut out, stream_id, Opcode::Result, &[0, 0, 0, 1]),
                        Canned::Overloaded => {
                            answer(&mut out, stream_id, Opcode::Error, &error(ErrorCode::Overloaded));
                        }
                        Canned::WriteTimeout => {
                            answer(
                                &mut out,
                                stream_id,
                                Opcode::Error,
                                &error(ErrorCode::WriteTimeout),
                            );
                        }
                        Canned::Silence => {}
                    }
                    executed += 1;
                }
                _ => answer(&mut out, stream_id, Opcode::Result, &[0, 0, 0, 1]),
            }
            at += 9 + length;
        }
        input.drain(..at);
        stream.write_all(&out)?;
    }
}

fn answer(out: &mut Vec<u8>, stream: [u8; 2], opcode: Opcode, body: &[u8]) {
    out.extend_from_slice(&[0x84, 0]);
    out.extend_from_slice(&stream);
    out.push(opcode as u8);
    out.extend_from_slice(&(body.len() as u32).to_be_bytes());
    out.extend_from_slice(body);
}

fn requests(address: SocketAddr) -> Requests {
    let options = GoodputOptions::default();
    let mut client = WireClient::connect(address, false, None).unwrap();
    prepare(&mut client, GoodputWorkload::PointRead, &options.preparation()).unwrap()
}

/// The lines of [`offered`].
const ALL: Range<usize> = 0..4;

/// A minute: nothing is too late for it, or too slow to be sent, on any machine.
const PATIENT: Duration = Duration::from_secs(60);

/// The sums of each part of a load of some lines, which is offered for 200 ms.
fn offered(address: SocketAddr, lines: &[Range<usize>], per_s: &[f64], in_flight_max: usize) -> Vec<Sums> {
    let requests = requests(address);
    let parts = lines.iter().map(|lines| Part {
        requests: requests.clone(),
        lines: lines.clone(),
    });
    let connections = Connections {
        logins: vec![None; ALL.end],
        in_flight_max,
        throws_on_overload: true,
        gather: Duration::ZERO,
    };
    let mut load = Load::new(address, parts.collect(), connections, PATIENT).unwrap();
    let length = Duration::from_millis(200);
    let from_us = load.now_us();
    let mut recorders: Vec<Recorder> = lines
        .iter()
        .map(|_| Recorder::in_slices(from_us, from_us + 1_000_000, PATIENT.as_micros() as u32).unwrap())
        .collect();
    let phase = Phase {
        per_s: per_s.to_vec(),
        length,
    };
    load.open(&[phase], &mut recorders, |_| ControlFlow::Continue(()))
        .unwrap();
    let sums = |recorder: &Recorder| recorder.total(&(0..10).collect::<Vec<_>>()).unwrap().sums;
    recorders.iter().map(sums).collect()
}

/// The one connection that prepares comes before those of the load.
const PREPARING: usize = 1;

#[test]
fn every_request_that_was_due_is_counted_once_whatever_became_of_it() {
    let address = canned(|_, number| match number % 5 {
        0 => Canned::Overloaded,
        1 => Canned::WriteTimeout,
        _ => Canned::Rows,
    });
    let sums = offered(address, &[ALL], &[100_000.0], STREAMS)[0];
    assert_eq!((sums.sent, sums.held_back, sums.not_generated), (20_000, 0, 0));
    assert_eq!((sums.refused, sums.failed), (4_000, 4_000));
    assert_eq!((sums.good, sums.late), (12_000, 0));
}

/// A generator that waits for answers before it sends on would have sent 4,000 less, and have seen nothing late.
#[test]
fn a_server_that_falls_silent_keeps_nothing_from_being_sent_and_counted() {
    let is_of_load = |connection| (PREPARING..PREPARING + 4).contains(&connection);
    let address = canned(move |connection, number| match number {
        1_000.. if is_of_load(connection) => Canned::Silence,
        _ => Canned::Rows,
    });
    let sums = offered(address, &[ALL], &[40_000.0], STREAMS)[0];
    assert_eq!((sums.sent, sums.held_back), (8_000, 0));
    assert_eq!((sums.good, sums.late, sums.unanswered), (4_000, 4_000, 4_000));
}

#[test]
fn what_is_due_beyond_the_requests_in_flight_is_not_sent_and_counted() {
    let is_of_load = |connection| (PREPARING..PREPARING + 4).contains(&connection);
    let address = canned(move |connection, _| match is_of_load(connection) {
        true => Canned::Silence,
        false => Canned::Rows,
    });
    let sums = offered(address, &[ALL], &[40_000.0], 100)[0];
    assert_eq!((sums.sent, sums.held_back), (400, 7_600));
    assert_eq!((sums.unanswered, sums.good), (400, 0));
}

#[test]
fn parts_of_a_load_share_connections_or_have_their_own_and_are_counted_apart() {
    let address = canned(|connection, _| match connection - PREPARING {
        3 => Canned::Overloaded,
        _ => Canned::Rows,
    });
    let sums = offered(address, &[0..3, 3..4], &[30_000.0, 10_000.0], STREAMS);
    assert_eq!((sums[0].good, sums[0].refused), (6_000, 0));
    assert_eq!((sums[1].good, sums[1].refused), (0, 2_000));
    let sums = offered(address, &[0..3, 0..3], &[30_000.0, 0.0], STREAMS);
    assert_eq!((sums[0].good + sums[0].late, sums[1].sent), (6_000, 0));
}

/// A short one of everything that a report has.
fn report(address: SocketAddr) -> GoodputReport {
    let options = GoodputOptions {
        address,
        workloads: vec![GoodputWorkload::PointRead],
        multiples: vec![0.5, 0.8, 2.0],
        capacity_per_s: Some(10_000.0),
        point: Duration::from_millis(100),
        point_max: Duration::from_millis(300),
        rounds: 1,
        warm_up: Duration::from_millis(100),
        ..GoodputOptions::default()
    };
    let mut report = run(&options, "canned", &mut |_, _| {}).unwrap();
    let mixed = GoodputOptions {
        mixes: vec![MixKind::GreedyConnection],
        ..options
    };
    report.mixes = run(&mixed, "canned", &mut |_, _| {}).unwrap().mixes;
    let window = |from_ms, refused| DisturbedWindow {
        from_ms,
        good: 100 - refused,
        refused,
        ..DisturbedWindow::default()
    };
    report.disturbances = vec![Disturbance {
        workload: GoodputWorkload::PointRead,
        kind: DisturbanceKind::Stall,
        capacity_per_s: 10_000.0,
        load: 0.8,
        meanwhile: 0.0,
        length_ms: 200,
        window_ms: 100,
        windows: vec![window(-200, 0), window(-100, 50), window(0, 7), window(100, 0)],
        unrefused_from_ms: vec![Some(70); 3],
        refused_until_ms: vec![Some(0), Some(70), None],
        bad_until_ms: vec![Some(80); 3],
        looks_stolen: 1,
    }];
    report
}

#[test]
fn a_report_says_under_which_bounds_it_was_measured_and_can_be_stored_and_drawn() {
    let report = report(canned(|_, _| Canned::Rows));
    let stored = serde_json::to_string(&report).unwrap();
    let report: GoodputReport = serde_json::from_str(&stored).unwrap();
    let point = &report.curves[0].points[2];
    assert_eq!((point.multiple, point.refused_per_s), (2.0, 0.0));
    assert!(point.pause_us_max > 0);
    let text = to_markdown(std::slice::from_ref(&report));
    for wanted in [
        "16 connections that ask for errors (THROW_ON_OVERLOAD), no bound on requests in flight but the protocol's 32768 a connection",
        "| point read | 10k |",
        "stopped for 200 ms at 0.8x",
        "| 0 | 100 | 93.00 % | 0 | 7.00 % | 0 | 0 |",
        "100 ms without a refusal began 70 ms after it (the worst: 70 ms after it)",
        "the last that was refused was due 70 ms after it (the worst: when that was over)",
        "**a greedy connection**",
    ] {
        assert!(text.contains(wanted), "{wanted} in {text}");
    }
    let svg = to_svg(std::slice::from_ref(&report));
    assert!(svg.matches("<svg ").count() == 1 + 3 && svg.contains("point read: goodput"));
    let svg = disturbances_to_svg(std::slice::from_ref(&report));
    assert!(svg.matches("<svg ").count() == 1 + 2 && svg.contains("point read, stopped for 200 ms"));
    let mut capped = report;
    capped.in_flight_max = 1_024;
    capped.throws_on_overload = false;
    let text = conditions(&capped);
    assert!(
        text.contains("at most 1024 requests in flight on each") && text.contains("no THROW_ON_OVERLOAD")
    );
}

#[test]
fn every_workload_has_its_row_and_every_server_its_line() {
    let curve = |workload| Curve {
        workload,
        capacity_per_s: 1_000.0,
        points: [0.5, 1.0, 2.0]
            .map(|multiple| Point {
                multiple,
                intended_per_s: multiple * 1_000.0,
                good_per_s: 900.0,
                p99_us: 1_500,
                ..Point::default()
            })
            .to_vec(),
        recoveries: vec![Recovery {
            multiple: 1.4,
            overload_s: 1.0,
            recovery_ms: Some(20),
            all_ms: vec![Some(20)],
            abnormal_before: 0.0,
            is_disturbed: false,
        }],
        resident: Vec::new(),
    };
    let report = |label: &str, workloads: &[GoodputWorkload]| GoodputReport {
        label: label.to_owned(),
        deadline_ms: 10.0,
        in_flight_max: 1_024,
        connections: 16,
        throws_on_overload: true,
        capacity_in_flight: 16,
        gather_us: 0,
        warm_up_s: 1.0,
        rounds: 1,
        size: RequestSize::Small,
        curves: workloads.iter().copied().map(curve).collect(),
        disturbances: Vec::new(),
        mixes: Vec::new(),
    };
    let reports = [
        report("one", &GoodputWorkload::ALL),
        report("another", &[GoodputWorkload::UniformReads]),
    ];
    let svg = to_svg(&reports);
    assert_eq!(svg.matches("<svg ").count(), 1 + 13 * 3);
    assert_eq!(svg.matches(">another<").count(), 2);
    assert!(svg.contains("uniform cached reads: goodput") && !svg.contains("NaN"));
    assert!(to_markdown(&reports).contains("normal again within 20 ms"));
}
