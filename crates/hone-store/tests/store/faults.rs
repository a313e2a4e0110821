//! Fail the n-th write, for every n: whatever was acknowledged is there afterwards.
//!
//! On SQLite the file layer itself fails (a write that is cut in half, a full disk, a sync that the disk refuses);
//! on PostgreSQL the connection is cut at the n-th message, before or after the server got it.

mod proxy;
mod vfs;

use crate::common::{self, event, grown, reward, trace, turn, write};
use hone_store::{Options, Place, verify};
use hone_trace::store::{Put, Store, TraceQuery, Write};
use proxy::{Cut, Proxy};
use std::process::Command;
use vfs::Fault;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// How many puts a scenario has.
const N_PUTS: u32 = 3;

/// A few puts, each with a trace and the next turn of the trace before; says after each which number was acknowledged.
async fn scenario(store: &dyn Store, mut acknowledged: impl FnMut(u32)) {
    for n in 0..N_PUTS {
        let mut writes = vec![write(n), turn(n, 1), Write::Reward(trace(n).id, reward(&n.to_string(), 0.5))];
        writes.extend(n.checked_sub(1).map(|before| turn(before, 2)));
        writes.push(Write::Event(event(n, "s")));
        if store.put(writes).await.is_ok() {
            acknowledged(n);
        }
    }
}

/// Every acknowledged put is there whole, no put is there in part, and nothing is damaged.
async fn check(place: &Place, acknowledged: &[u32], what: &str) {
    let store = hone_store::open(place, &Options::default()).await.expect("the store opens after the fault");
    let events = store.events(Some("s"), 0, 100).await.expect("the events are there");
    let has_event = |n: u32| events.iter().filter(|(_, event)| event.body["n"] == n).count();
    for n in 0..N_PUTS {
        let found = store.trace(trace(n).id).await.expect("a trace can be read");
        // The put after it, if it came through, appended one more turn.
        let n_turns = 2 + u32::from(has_event(n + 1) == 1);
        let is_whole = has_event(n) == 1
            && found.as_ref().is_some_and(|trace| trace.rewards.len() == 1 && trace.segments == grown(n, n_turns).segments);
        let is_absent = found.is_none() && has_event(n) == 0;
        assert!(is_whole || (is_absent && !acknowledged.contains(&n)), "{what}: put {n}, acknowledged {acknowledged:?}");
    }
    let verdict = verify(&*store, |_| ()).await.expect("the store can be read");
    assert_eq!(verdict.complaints, Vec::<String>::new(), "{what}");
    // And it still works: what is there is known, what is not is taken.
    for n in 0..N_PUTS {
        let puts = store.put(vec![write(n), turn(n, 1)]).await.expect("a healthy disk takes writes");
        assert!(!puts.contains(&Put::Conflict), "{what}: {puts:?}");
    }
    assert_eq!(store.heads(&TraceQuery::default(), None, 100).await.expect("a list").items.len(), N_PUTS as usize, "{what}");
}

/// The body of the child process: plays the scenario on a file layer that fails, and prints what was acknowledged.
/// Run as a test by itself, without the variable, it has nothing to do.
#[test]
fn child() {
    let Some((fault, folder)) = Fault::of_child() else { return };
    vfs::register(fault);
    let options = Options { sqlite_vfs: Some(vfs::NAME.to_owned()), ..Options::default() };
    runtime().block_on(async {
        let Ok(store) = hone_store::open(&Place::Folder(folder), &options).await else { return };
        scenario(&*store, |n| println!("\nacknowledged {n}")).await;
    });
    println!("\n{}", if vfs::has_fired() { "fault met" } else { "no fault left" });
}

#[test]
fn sqlite_loses_nothing_acknowledged_whichever_write_fails() {
    for kind in vfs::Kind::ALL {
        let (mut n_faults, mut n_deaths) = (0, 0);
        for nth in 0.. {
            let fresh = common::sqlite();
            let folder = common::folder_of(&fresh.place);
            let output = Command::new(std::env::current_exe().expect("this test"))
                .args(["--exact", "faults::child", "--nocapture", "--test-threads=1"])
                .envs(Fault { kind, nth }.for_child(&folder))
                .output()
                .expect("the child starts");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let acknowledged: Vec<u32> =
                said.lines().filter_map(|line| line.strip_prefix("acknowledged ")?.parse().ok()).collect();
            let what = format!("{kind:?} {nth}");
            runtime().block_on(check(&fresh.place, &acknowledged, &what));
            if said.contains("no fault left") {
                assert_eq!(acknowledged.len(), N_PUTS as usize, "{what}: without a fault all is acknowledged");
                break;
            }
            n_faults += 1;
            let died = !output.status.success();
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(died, words.contains("could not be synced"), "{what}: only a failed sync ends the process\n{words}");
            // At its start the store refuses to open, at its end the file is closed anyway; in between it must die.
            let at_work = !acknowledged.is_empty() && acknowledged.len() < N_PUTS as usize;
            assert!(kind != vfs::Kind::Sync || died || !at_work, "{what}: a failed sync ends the process\n{said}{words}");
            n_deaths += u32::from(died);
        }
        let least = if kind == vfs::Kind::Sync { N_PUTS } else { 0 };
        assert!(n_faults >= 8 && n_deaths >= least, "{kind:?}: only {n_faults} places to fail, {n_deaths} deaths");
        println!("{kind:?}: failed at each of {n_faults} places, {n_deaths} of them ended the process");
    }
}

#[test]
fn postgres_loses_nothing_acknowledged_whichever_message_is_cut() {
    runtime().block_on(async {
        let Some(fresh) = common::postgres().await else {
            println!("skipped: HONE_TEST_POSTGRES is not set (`cargo xtask test` sets it)");
            return;
        };
        let Place::Postgres(url) = &fresh.place else { panic!("a PostgreSQL store has a URL") };
        drop(hone_store::open(&fresh.place, &Options::default()).await.expect("the store opens"));
        for cut in [Cut::Before, Cut::After] {
            let mut n_cuts = 0;
            for nth in 0.. {
                empty(url).await;
                let proxy = Proxy::start(url, cut, nth).await;
                let mut acknowledged = Vec::new();
                if let Ok(store) = hone_store::open(&Place::Postgres(proxy.url.clone()), &Options::default()).await {
                    scenario(&*store, |n| acknowledged.push(n)).await;
                    assert_eq!(acknowledged.len(), N_PUTS as usize, "{cut:?} {nth}: one cut is survived by sending again");
                }
                let fired = proxy.has_cut();
                check(&fresh.place, &acknowledged, &format!("{cut:?} {nth}")).await;
                if !fired {
                    break;
                }
                n_cuts += 1;
            }
            assert!(n_cuts >= 20, "{cut:?}: only {n_cuts} places to cut");
            println!("{cut:?}: cut at each of {n_cuts} places");
        }
    });
}

#[test]
fn connections_on_which_nobody_answers_are_given_up_in_time() {
    if !common::slow() {
        println!("skipped: HONE_SLOW is not set, and this waits for half a minute");
        return;
    }
    runtime().block_on(async {
        let Some(fresh) = common::postgres().await else {
            println!("skipped: HONE_TEST_POSTGRES is not set (`cargo xtask test` sets it)");
            return;
        };
        let Place::Postgres(url) = &fresh.place else { panic!("a PostgreSQL store has a URL") };
        let proxy = Proxy::start(url, Cut::Before, i64::MAX).await;
        let store = hone_store::open(&Place::Postgres(proxy.url.clone()), &Options::default()).await.expect("the store opens");
        store.put(vec![write(1)]).await.expect("the store takes it");
        assert_eq!(common::count(&*store).await, 1);
        proxy.hush();
        let limit = std::time::Duration::from_secs(60);
        let (read, put) = tokio::join!(
            tokio::time::timeout(limit, store.trace(trace(1).id)),
            tokio::time::timeout(limit, store.put(vec![write(2)])),
        );
        let error = read.expect("a read ends").expect_err("nobody answered it").to_string();
        assert!(error.contains("no answer within 30 seconds"), "{error}");
        assert_eq!(put.expect("a put ends").expect("it is sent again on another connection"), [Put::New]);
        assert_eq!(common::count(&*store).await, 2, "a read after that has a connection of its own");
    });
}

/// Takes all records away, as no user ever would.
async fn empty(url: &str) {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("the server answers");
    tokio::spawn(connection);
    client.batch_execute("TRUNCATE hone.traces, hone.turns, hone.rewards, hone.events").await.expect("an empty database");
}
