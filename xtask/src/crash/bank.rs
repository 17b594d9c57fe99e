//! `cargo xtask crash --transfers N`: tellers move money between accounts by transactions that write to three partitions, while an
//! auditor sums all accounts up in a transaction of its own, and the server is killed under them.
//!
//! Every transfer leaves its teller's receipt. So after a restart it is known which of the transfers in doubt were done, and every
//! balance is compared with what all tellers together have moved: nothing acknowledged is lost, nothing is done by halves or twice, and
//! nothing of what was refused as OVERLOADED, which is what becomes of a transaction that waits too long for its turns.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::writer::number;
use super::{Arguments, REQUEST_TIMEOUT, Random, join, options, report, unless_killed};
use crate::TaskError;
use crate::native::{Cell, Connection, NativeError};
use crate::node::{Node, Target};
use crate::program::Tally;

/// Partitions, on all shards; few enough for transfers to meet.
const ACCOUNTS: u32 = 64;
const START: i64 = 1_000;
/// Now and then an account has less than this.
const AMOUNT_MAX: u32 = 100;

/// So many wait for the log at the same time: a log is synced for all of them.
const TELLERS: u32 = 64;

/// An audit has the turns of all accounts, so there is not always one.
const AUDIT_PAUSE: Duration = Duration::from_millis(10);

const TRANSFER: &str = "BEGIN TRANSACTION LET giver = (SELECT balance FROM crash.accounts WHERE number = ?); SELECT giver.balance; \
     IF giver.balance >= ? THEN UPDATE crash.accounts SET balance -= ? WHERE number = ?; \
     UPDATE crash.accounts SET balance += ? WHERE number = ?; UPDATE crash.receipts SET sequence = ? WHERE teller = ?; END IF \
     COMMIT TRANSACTION";

#[derive(Clone, Copy)]
struct Transfer {
    from: u32,
    to: u32,
    amount: i64,
}

/// Invariant: one transfer is under way, so at most one is in doubt after a kill.
struct Teller {
    id: u32,
    random: Random,
    /// Number of the last receipt.
    sequence: i64,
    /// Sum of what was done to each account.
    moved: Vec<i64>,
    in_doubt: Option<Transfer>,
}

struct Auditor {
    audits: Arc<AtomicU64>,
    wrong: Vec<String>,
}

pub fn kill_repeatedly(target: &Target, arguments: &Arguments, transfers: u64) -> Result<Tally, TaskError> {
    let mut tally = Tally::default();
    let mut node = Node::start(target, "bank", &options(0))?;
    open_accounts(node.address())?;
    let mut random = Random::new(arguments.seed);
    let mut tellers: Vec<Teller> = (0..TELLERS).map(|id| Teller::new(id, random.next())).collect();
    let mut auditor = Auditor {
        audits: Arc::default(),
        wrong: Vec::new(),
    };
    let begun = Instant::now();
    for round in 1..=arguments.kills {
        // Else all kills of a short run meet the log in the same state.
        let done_max = transfers + u64::from(random.below(TELLERS));
        (tellers, auditor) = load_until_killed(&mut node, tellers, auditor, done_max)?;
        node.start_again(&options(round))?;
        let failed_before = tally.failed;
        let wrong = verify(node.address(), &mut tellers)?;
        report(&format!("accounts after kill {round}"), &wrong, &mut tally);
        let wrong = std::mem::take(&mut auditor.wrong);
        report(&format!("audits before kill {round}"), &wrong, &mut tally);
        println!(
            "  kill {round} of {}: {} transfers and {} audits so far in {:.0} s, {} wrong",
            arguments.kills,
            tellers.iter().map(|teller| teller.sequence).sum::<i64>(),
            auditor.audits.load(Ordering::Relaxed),
            begun.elapsed().as_secs_f64(),
            tally.failed - failed_before
        );
    }
    tally.check("no panic in the server", node.check_panics());
    tally.check("clean stop after the kills", node.stop());
    Ok(tally)
}

fn open_accounts(address: SocketAddr) -> Result<(), NativeError> {
    let mut connection = Connection::open(address, REQUEST_TIMEOUT)?;
    connection.query(
        "CREATE KEYSPACE crash WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    )?;
    connection.query("CREATE TABLE crash.accounts (number int PRIMARY KEY, balance bigint)")?;
    connection.query("CREATE TABLE crash.receipts (teller int PRIMARY KEY, sequence bigint)")?;
    for account in 0..ACCOUNTS {
        connection.query(&format!(
            "INSERT INTO crash.accounts (number, balance) VALUES ({account}, {START})"
        ))?;
    }
    for teller in 0..TELLERS {
        connection.query(&format!(
            "INSERT INTO crash.receipts (teller, sequence) VALUES ({teller}, 0)"
        ))?;
    }
    Ok(())
}

fn load_until_killed(
    node: &mut Node,
    tellers: Vec<Teller>,
    mut auditor: Auditor,
    done_max: u64,
) -> Result<(Vec<Teller>, Auditor), NativeError> {
    let address = node.address();
    let killed = Arc::new(AtomicBool::new(false));
    let audits_made = Arc::clone(&auditor.audits);
    let audits_before = audits_made.load(Ordering::Relaxed);
    let done = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = tellers
        .into_iter()
        .map(|mut teller| {
            let (killed, done) = (Arc::clone(&killed), Arc::clone(&done));
            thread::spawn(move || {
                let outcome = teller.transfer_repeatedly(address, &done);
                let outcome = unless_killed(outcome, &killed);
                (teller, outcome)
            })
        })
        .collect();
    let audits = {
        let killed = Arc::clone(&killed);
        thread::spawn(move || {
            let outcome = auditor.audit_repeatedly(address);
            let outcome = unless_killed(outcome, &killed);
            (auditor, outcome)
        })
    };
    // An audit waits for its turn of every account, which takes a second among so many tellers.
    let is_enough =
        || done.load(Ordering::Relaxed) >= done_max && audits_made.load(Ordering::Relaxed) > audits_before;
    // One that has ended has an error to tell.
    let has_failed = || audits.is_finished() || threads.iter().any(|thread| thread.is_finished());
    while !is_enough() && !has_failed() {
        thread::sleep(Duration::from_millis(1));
    }
    node.kill();
    killed.store(true, Ordering::SeqCst);
    let mut back = Vec::new();
    for thread in threads {
        let (teller, outcome) = join(thread);
        outcome?;
        back.push(teller);
    }
    let (auditor, outcome) = join(audits);
    outcome?;
    Ok((back, auditor))
}

impl Teller {
    fn new(id: u32, seed: u64) -> Self {
        Teller {
            id,
            random: Random::new(seed),
            sequence: 0,
            moved: vec![0; ACCOUNTS as usize],
            in_doubt: None,
        }
    }

    /// Until the connection breaks.
    fn transfer_repeatedly(&mut self, address: SocketAddr, done: &AtomicU64) -> Result<(), NativeError> {
        let mut connection = Connection::open(address, REQUEST_TIMEOUT)?;
        let statement = connection.prepare(TRANSFER)?;
        loop {
            let transfer = self.next_transfer();
            self.in_doubt = Some(transfer);
            let Transfer { from, to, amount } = transfer;
            let (from, to, amount_bytes) = (bytes_of(from), bytes_of(to), amount.to_be_bytes().to_vec());
            let values = [
                from.clone(),
                amount_bytes.clone(),
                amount_bytes.clone(),
                from,
                amount_bytes,
                to,
                (self.sequence + 1).to_be_bytes().to_vec(),
                bytes_of(self.id),
            ];
            let rows = match connection.execute(&statement, &values) {
                Err(error) if is_overloaded(&error) => {
                    self.settle(false);
                    continue;
                }
                rows => rows?,
            };
            let balance = rows.first().and_then(|row| row.first()).map(number).transpose()?;
            match balance {
                Some(balance) if balance >= amount => {
                    self.settle(true);
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Some(_) => self.settle(false),
                None => {
                    return Err(NativeError::Malformed(
                        "a transfer was not answered with a balance",
                    ));
                }
            }
        }
    }

    fn next_transfer(&mut self) -> Transfer {
        let from = self.random.below(ACCOUNTS);
        let to = (from + 1 + self.random.below(ACCOUNTS - 1)) % ACCOUNTS;
        let amount = i64::from(1 + self.random.below(AMOUNT_MAX));
        Transfer { from, to, amount }
    }

    /// The transfer in doubt was done, or was not and never will be.
    fn settle(&mut self, is_done: bool) {
        let Some(Transfer { from, to, amount }) = self.in_doubt.take().filter(|_| is_done) else {
            return;
        };
        self.sequence += 1;
        self.moved[from as usize] -= amount;
        self.moved[to as usize] += amount;
    }
}

impl Auditor {
    /// Until the connection breaks.
    fn audit_repeatedly(&mut self, address: SocketAddr) -> Result<(), NativeError> {
        let mut connection = Connection::open(address, REQUEST_TIMEOUT)?;
        let lets: String = (0..ACCOUNTS)
            .map(|account| {
                format!("LET a{account} = (SELECT balance FROM crash.accounts WHERE number = {account}); ")
            })
            .collect();
        let balances: Vec<String> = (0..ACCOUNTS)
            .map(|account| format!("a{account}.balance"))
            .collect();
        let audit = connection.prepare(&format!(
            "BEGIN TRANSACTION {lets}SELECT {}; COMMIT TRANSACTION",
            balances.join(", ")
        ))?;
        loop {
            let rows = match connection.execute(&audit, &[]) {
                Err(error) if is_overloaded(&error) => continue,
                rows => rows?,
            };
            self.wrong.extend(fault(rows.first().map_or(&[], Vec::as_slice))?);
            self.audits.fetch_add(1, Ordering::Relaxed);
            thread::sleep(AUDIT_PAUSE);
        }
    }
}

fn is_overloaded(error: &NativeError) -> bool {
    const OVERLOADED: i32 = 0x1001;
    matches!(error, NativeError::Server { code: OVERLOADED, .. })
}

/// The fault of what an audit has read, if any.
fn fault(row: &[Cell]) -> Result<Option<String>, NativeError> {
    let balances: Vec<i64> = row.iter().map(number).collect::<Result<_, _>>()?;
    let (sum, expected) = (balances.iter().sum::<i64>(), i64::from(ACCOUNTS) * START);
    let overdrawn = balances.iter().find(|balance| **balance < 0);
    Ok(match overdrawn {
        _ if sum != expected => Some(format!("an audit found {sum} of {expected}")),
        Some(balance) => Some(format!("an audit found a balance of {balance}")),
        None => None,
    })
}

/// Compares what the server has with what the tellers know: settles what was in doubt by the receipts.
fn verify(address: SocketAddr, tellers: &mut [Teller]) -> Result<Vec<String>, NativeError> {
    let mut connection = Connection::open(address, REQUEST_TIMEOUT)?;
    let mut wrong = Vec::new();
    for row in connection.query("SELECT teller, sequence FROM crash.receipts")? {
        let [teller, sequence] = row.as_slice() else {
            continue;
        };
        let (teller, found) = (number(teller)?, number(sequence)?);
        let Some(teller) = tellers.iter_mut().find(|known| i64::from(known.id) == teller) else {
            wrong.push(format!("teller {teller} is nobody"));
            continue;
        };
        let last = teller.sequence;
        teller.settle(found == last + 1);
        if found != teller.sequence {
            wrong.push(format!(
                "the last receipt of teller {} is {found}, acknowledged was {last}",
                teller.id
            ));
            teller.sequence = found;
        }
    }
    for row in connection.query("SELECT number, balance FROM crash.accounts")? {
        let [account, balance] = row.as_slice() else {
            continue;
        };
        let (account, found) = (number(account)?, number(balance)?);
        let moved: i64 = tellers.iter().map(|teller| teller.moved[account as usize]).sum();
        if found != START + moved {
            wrong.push(format!(
                "account {account} has {found}, and should have {}",
                START + moved
            ));
        }
    }
    Ok(wrong)
}

fn bytes_of(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(balances: &[i64]) -> Vec<Cell> {
        balances
            .iter()
            .map(|balance| Some(balance.to_be_bytes().to_vec()))
            .collect()
    }

    #[test]
    fn audits_find_money_that_is_missing_and_debts() {
        let mut balances = vec![START; ACCOUNTS as usize];
        assert_eq!(fault(&cells(&balances)).unwrap(), None);
        balances[0] -= 1;
        assert!(fault(&cells(&balances)).unwrap().unwrap().contains("63999"));
        (balances[0], balances[1]) = (-1, 2 * START + 1);
        assert!(fault(&cells(&balances)).unwrap().unwrap().contains("-1"));
    }

    #[test]
    fn a_transfer_in_doubt_is_settled_by_its_receipt() {
        let mut teller = Teller::new(0, 1);
        for (is_done, moved) in [(true, -7), (false, -7)] {
            teller.in_doubt = Some(Transfer {
                from: 0,
                to: 1,
                amount: 7,
            });
            teller.settle(is_done);
            assert_eq!((teller.moved[0], teller.moved[1]), (moved, -moved));
        }
        assert_eq!(teller.sequence, 1);
    }
}
