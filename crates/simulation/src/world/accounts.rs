//! Accounts between which transactions move money: whoever looks at all of them, in a transaction, finds as much as there was
//! at first, whatever crashes; no account is ever overdrawn; and what batches write to all of them is the same in all.

use helenus_test_node::{Answer, Execution};
use tokio::task::JoinHandle;

use super::{Held, LATE_MAX, READ_TRIES, UNDER_WAY_MAX, WRITE_TIMEOUT, World};
use crate::node::SimulatedNode;

/// Partitions, on all shards.
const ACCOUNTS: u64 = 5;
const START: i32 = 100;

/// One partition for each.
pub(super) const CREATE: &str = "CREATE TABLE k.accounts (p int PRIMARY KEY, n int, stamp int)";

pub(super) struct AccountUnderWay {
    text: String,
    is_audit: bool,
    answer: JoinHandle<Held<Answer>>,
}

/// Accounts that are not there are opened, all of them by one transaction.
fn opening() -> String {
    let inserts: String = (0..ACCOUNTS)
        .map(|p| format!("INSERT INTO k.accounts (p, n) VALUES ({p}, {START}); "))
        .collect();
    format!(
        "BEGIN TRANSACTION LET a = (SELECT n FROM k.accounts WHERE p = 0); IF a.n IS NULL THEN {inserts}END IF COMMIT TRANSACTION"
    )
}

fn audit() -> String {
    let lets: String = (0..ACCOUNTS)
        .map(|p| format!("LET a{p} = (SELECT n, stamp FROM k.accounts WHERE p = {p}); "))
        .collect();
    let column = |name| (0..ACCOUNTS).map(move |p| format!("a{p}.{name}"));
    let columns: Vec<String> = column("n").chain(column("stamp")).collect();
    format!(
        "BEGIN TRANSACTION {lets}SELECT {}; COMMIT TRANSACTION",
        columns.join(", ")
    )
}

fn transfer(from: u64, to: u64, amount: u64) -> String {
    format!(
        "BEGIN TRANSACTION LET a = (SELECT n FROM k.accounts WHERE p = {from}); IF a.n >= {amount} THEN \
         UPDATE k.accounts SET n = a.n - {amount} WHERE p = {from}; UPDATE k.accounts SET n += {amount} WHERE p = {to}; \
         END IF COMMIT TRANSACTION"
    )
}

impl World {
    /// Sends a transfer, an audit, or a plain batch about another column of the rows.
    pub(super) async fn use_accounts(&mut self, node: &SimulatedNode) -> Held<()> {
        while self.accounts_under_way.len() as u64 > self.below(UNDER_WAY_MAX) {
            let index = self.below(self.accounts_under_way.len() as u64) as usize;
            let sent = self.accounts_under_way.swap_remove(index);
            self.settle_account(sent).await?;
        }
        let (from, step, amount) = (self.below(ACCOUNTS), self.below(ACCOUNTS - 1), 1 + self.below(40));
        let to = (from + 1 + step) % ACCOUNTS;
        let (text, is_audit) = match self.below(8) {
            0 => (opening(), false),
            1 | 2 => (audit(), true),
            3 => {
                let stamp = self.below(1 << 30);
                let updates: String = (0..ACCOUNTS)
                    .map(|p| format!("UPDATE k.accounts SET stamp = {stamp} WHERE p = {p}; "))
                    .collect();
                (format!("BEGIN BATCH {updates}APPLY BATCH"), false)
            }
            _ => (transfer(from, to, amount), false),
        };
        let answer = self.submit(node, &text, Execution::default(), WRITE_TIMEOUT + LATE_MAX);
        self.accounts_under_way.push(AccountUnderWay {
            text,
            is_audit,
            answer,
        });
        Ok(())
    }

    pub(super) async fn settle_accounts(&mut self) -> Held<()> {
        for sent in std::mem::take(&mut self.accounts_under_way) {
            self.settle_account(sent).await?;
        }
        Ok(())
    }

    async fn settle_account(&mut self, sent: AccountUnderWay) -> Held<()> {
        let answer = sent.answer.await.map_err(|error| error.to_string())??;
        match &answer {
            Answer::Rows(rows) if sent.is_audit => {
                self.report.reads_checked += 1;
                let row = rows.rows.first().ok_or("an audit without a row")?;
                balanced(row).map_err(|error| format!("{}: {error}", sent.text))
            }
            // A clock that was set back by more than a day leaves rows that are too new to follow.
            Answer::Error { message, .. } if message.contains("in the future") => Ok(()),
            answer => {
                let _known = self.outcome(answer, &sent.text)?;
                self.report.acknowledged += 1;
                Ok(())
            }
        }
    }

    /// After a start, when nobody writes.
    pub(super) async fn check_accounts(&mut self, node: &SimulatedNode) -> Held<()> {
        let text = audit();
        for _ in 0..READ_TRIES {
            let answer = self.submit(node, &text, Execution::default(), WRITE_TIMEOUT + LATE_MAX);
            match answer.await.map_err(|error| error.to_string())?? {
                Answer::Rows(rows) => {
                    let row = rows.rows.first().ok_or("an audit without a row")?;
                    return balanced(row).map_err(|error| format!("after a start: {error}"));
                }
                Answer::Error { message, .. } if message.contains("does not exist") => return Ok(()),
                Answer::Error { .. } => {}
                other => return Err(format!("{text}: {other:?}")),
            }
        }
        Ok(())
    }
}

/// All balances are there, or none yet; all stamps are of the same batch.
fn balanced(row: &[Option<Vec<u8>>]) -> Held<()> {
    let values: Vec<Option<i32>> = row
        .iter()
        .map(|value| value.as_deref()?.try_into().ok().map(i32::from_be_bytes))
        .collect();
    let (balances, stamps) = values.split_at(values.len() / 2);
    if stamps.windows(2).any(|pair| pair[0] != pair[1]) {
        return Err(format!(
            "of batches that wrote all of them, accounts have {stamps:?}"
        ));
    }
    if balances.iter().all(Option::is_none) {
        return Ok(());
    }
    let sum: i32 = balances.iter().flatten().sum();
    let is_whole = balances
        .iter()
        .all(|balance| balance.is_some_and(|balance| balance >= 0));
    match is_whole && sum == ACCOUNTS as i32 * START {
        true => Ok(()),
        false => Err(format!("accounts hold {balances:?}, {sum} in all")),
    }
}
