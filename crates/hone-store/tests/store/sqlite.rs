//! What only SQLite can get wrong: files that are not its own, damage, other processes.

use crate::common::{self, event, folder_of, grown, trace, turn, write};
use hone_store::{Options, backup, restore, verify};
use hone_trace::BlobHash;
use hone_trace::store::{Link, Put, StoreError, Write};

fn run(case: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime").block_on(case);
}

#[test]
fn the_database_of_another_program_is_left_alone() {
    run(async {
        let fresh = common::sqlite();
        let folder = folder_of(&fresh.place);
        std::fs::create_dir_all(&folder).unwrap();
        let other = rusqlite::Connection::open(folder.join("hone.db")).unwrap();
        other.execute_batch("CREATE TABLE theirs (x)").unwrap();
        let error = hone_store::open(&fresh.place, &Options::default()).await.err().unwrap().to_string();
        assert!(error.contains("another program"), "{error}");

        let fresh = common::sqlite();
        let folder = folder_of(&fresh.place);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("hone.db"), b"this is a text file, and not a short one at that").unwrap();
        let error = hone_store::open(&fresh.place, &Options::default()).await.err().unwrap();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    });
}

#[test]
fn a_changed_record_is_found_out_by_verify() {
    run(async {
        let fresh = common::sqlite();
        let store = fresh.open().await;
        store.put((0..5).map(write).collect()).await.unwrap();
        let blob = store.put_blob(b"weights".to_vec()).await.unwrap();
        assert!(verify(&*store, |_| ()).await.unwrap().complaints.is_empty());
        drop(store);
        let folder = folder_of(&fresh.place);
        let database = rusqlite::Connection::open(folder.join("hone.db")).unwrap();
        database
            .execute("UPDATE bodies SET body = replace(body, 'calculator', 'calculatox') WHERE seq = (SELECT seq FROM traces WHERE id = ?1)", [trace(3).id.bytes()])
            .unwrap();
        database
            .execute("UPDATE bodies SET body = '{' WHERE seq = (SELECT seq FROM traces WHERE id = ?1)", [trace(4).id.bytes()])
            .unwrap();
        drop(database);
        let hex = blob.to_string();
        std::fs::write(folder.join("blobs").join(&hex[..2]).join(&hex[2..]), b"weightz").unwrap();
        let verdict = verify(&*fresh.open().await, |_| ()).await.unwrap();
        assert_eq!(verdict.n_complaints, 3, "{:?}", verdict.complaints);
        for id in [trace(3).id.to_string(), trace(4).id.to_string(), blob.to_string()] {
            assert!(verdict.complaints.iter().any(|complaint| complaint.contains(&id)), "{id} {:?}", verdict.complaints);
        }
    });
}

#[test]
fn a_changed_turn_and_a_lost_one_are_found_out_by_verify() {
    run(async {
        let fresh = common::sqlite();
        let store = fresh.open().await;
        store.put((0..2).flat_map(|n| [write(n), turn(n, 1), turn(n, 2)]).collect()).await.unwrap();
        drop(store);
        let database = rusqlite::Connection::open(folder_of(&fresh.place).join("hone.db")).unwrap();
        let changed = "UPDATE turns SET body = replace(body, 'more', 'less') WHERE trace = ?1 AND turn_idx = 2";
        assert_eq!(database.execute(changed, [trace(0).id.bytes()]).unwrap(), 1);
        let lost = "DELETE FROM turns WHERE trace = ?1 AND turn_idx = 1";
        assert_eq!(database.execute(lost, [trace(1).id.bytes()]).unwrap(), 1);
        drop(database);
        let store = fresh.open().await;
        let verdict = verify(&*store, |_| ()).await.unwrap();
        let lost = format!("trace {} lacks 1 of the turns that it counts", trace(1).id);
        let changed = format!("a turn, turn 3 of trace {}, is not what was written", trace(0).id);
        assert_eq!(verdict.complaints, [lost, changed]);
        let error = store.trace(trace(1).id).await.unwrap_err().to_string();
        assert!(error.contains("turn 3 stands where turn 2 is due"), "{error}");
    });
}

#[test]
fn damage_is_left_out_of_a_back_up_and_put_back_from_one() {
    run(async {
        let fresh = common::sqlite();
        let store = fresh.open().await;
        let reward = Write::Reward(trace(1).id, common::reward("later", 0.9));
        store.put(vec![write(0), write(1), write(2), turn(0, 1), turn(0, 2), reward, Write::Event(event(1, "s"))]).await.unwrap();
        let blob = store.put_blob(b"weights".to_vec()).await.unwrap();
        let (before, after) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let all = backup(&*store, before.path(), |_| ()).await.unwrap();
        assert_eq!((all.records.total(), all.n_damaged), (7, 0));
        drop(store);

        let folder = folder_of(&fresh.place);
        let database = rusqlite::Connection::open(folder.join("hone.db")).unwrap();
        for changed in [
            "UPDATE bodies SET body = replace(body, '0 + 0', '0 - 0')",
            "UPDATE traces SET hash = zeroblob(16) WHERE seq = 2",
            "UPDATE turns SET body = '{' WHERE turn_idx = 2",
            "UPDATE rewards SET body = replace(body, '0.9', '0.8')",
            "UPDATE events SET body = replace(body, '1', '2')",
        ] {
            assert!(database.execute(changed, []).unwrap() > 0, "{changed}");
        }
        drop(database);
        let hex = blob.to_string();
        std::fs::write(folder.join("blobs").join(&hex[..2]).join(&hex[2..]), b"weightz").unwrap();

        let store = fresh.open().await;
        let sound = backup(&*store, after.path(), |_| ()).await.unwrap();
        assert_eq!((sound.records.total(), sound.blobs.len(), sound.n_damaged), (2, 0, 6), "{:?}", sound.damaged);
        assert!(sound.damaged.iter().any(|damage| damage.contains(&trace(0).id.to_string())), "{:?}", sound.damaged);

        let restored = restore(&*store, before.path(), |_| ()).await.unwrap();
        assert_eq!((restored.records.total(), restored.blobs, restored.repaired, restored.same), (5, 1, 6, 2), "{restored:?}");
        assert_eq!(verify(&*store, |_| ()).await.unwrap().complaints, [] as [&str; 0]);
        assert_eq!(store.trace(trace(0).id).await.unwrap(), Some(grown(0, 3)));
    });
}

/// Writes 300 traces of about 1 KB with all that belongs to them, and leaves nothing in the log.
async fn fill(fresh: &common::Fresh) {
    let store = fresh.open().await;
    let writes = (0..300).flat_map(|n| {
        let mut trace = trace(n);
        trace.metadata.insert("note".into(), "x".repeat(700).into());
        let link = Link { from: format!("a:{n}"), rel: "r".into(), to: format!("b:{}", n % 7) };
        let given = Write::Reward(trace.id, common::reward(&n.to_string(), 0.5));
        [Write::Trace(Box::new(trace)), turn(n, 1), given, Write::Link(link), Write::Event(event(n, "s"))]
    });
    store.put(writes.collect()).await.expect("they are written");
    drop(store);
    let database = rusqlite::Connection::open(folder_of(&fresh.place).join("hone.db")).expect("the database");
    database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("an empty log");
}

#[test]
fn a_zeroed_page_is_named_and_a_back_up_holds_all_that_stood_elsewhere() {
    const PAGE: usize = 4096;
    const N_RECORDS: u64 = 1500;
    run(async {
        let fresh = common::sqlite();
        fill(&fresh).await;
        let file = folder_of(&fresh.place).join("hone.db");
        let sound = std::fs::read(&file).unwrap();
        let n_pages = sound.len() / PAGE;
        let mut n_damaged = 0;
        // Of tables and of indexes alike. The first pages hold what the whole database is known by.
        for page in (n_pages / 4..n_pages).step_by(n_pages / 12) {
            let mut bytes = sound.clone();
            bytes[page * PAGE..(page + 1) * PAGE].fill(0);
            std::fs::write(&file, bytes).unwrap();
            let store = fresh.open().await;
            let verdict = verify(&*store, |_| ()).await.unwrap();
            let folder = tempfile::tempdir().unwrap();
            let manifest = backup(&*store, folder.path(), |_| ()).await.unwrap();
            let what = format!("page {page} of {n_pages}: {:?} and {:?}", verdict.complaints, manifest.damaged);
            assert_eq!(manifest.records.total() + manifest.n_damaged, N_RECORDS, "{what}");
            assert!(manifest.n_damaged < 100, "{what}");
            assert!(verdict.n_complaints > manifest.n_damaged, "{what}");
            assert!(manifest.damaged.iter().all(|damage| verdict.complaints.contains(damage)), "{what}");
            n_damaged += manifest.n_damaged;
        }
        assert!(n_damaged > 0, "no page of a table among them");
    });
}

#[test]
fn a_back_up_that_was_cut_short_is_run_again() {
    run(async {
        let fresh = common::sqlite();
        let store = fresh.open().await;
        store.put((0..5).map(write).collect()).await.unwrap();
        let blob = store.put_blob(b"weights".to_vec()).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let whole = backup(&*store, folder.path(), |_| ()).await.unwrap();
        // As a kill leaves it: too many records here, half a blob, one that has gone from the store since, half a manifest.
        let text = std::fs::read_to_string(path("records.jsonl")).unwrap();
        std::fs::write(path("records.jsonl"), text.repeat(2)).unwrap();
        std::fs::write(path("blobs").join(blob.to_string()), b"wei").unwrap();
        let gone = path("blobs").join(BlobHash::of(b"gone").to_string());
        std::fs::write(&gone, b"gone").unwrap();
        std::fs::rename(path("manifest.json"), path("manifest.json.partial")).unwrap();

        assert_eq!(backup(&*store, folder.path(), |_| ()).await.unwrap(), whole);
        assert!(!gone.exists() && !path("manifest.json.partial").exists());
        let restored = restore(&*common::sqlite().open().await, folder.path(), |_| ()).await.unwrap();
        assert_eq!((restored.records.total(), restored.blobs), (5, 1));
    });
}

#[test]
fn a_folder_with_anything_that_no_back_up_writes_is_refused_and_left_as_it_is() {
    run(async {
        let fresh = common::sqlite();
        let store = fresh.open().await;
        store.put(vec![write(0)]).await.unwrap();
        let check = async |names: &[&str], strange: &str| {
            let folder = tempfile::tempdir().unwrap();
            for name in names {
                let path = folder.path().join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, b"mine").unwrap();
            }
            let error = backup(&*store, folder.path(), |_| ()).await.unwrap_err().to_string();
            assert!(error.contains(&format!("`{strange}` is no part of a back-up")), "{names:?}: {error}");
            assert!(names.iter().all(|name| std::fs::read(folder.path().join(name)).unwrap() == b"mine"), "{names:?}");
        };
        check(&["notes.txt"], "notes.txt").await;
        check(&["records.jsonl"], "records.jsonl").await;
        check(&["records.jsonl", "blobs/mine"], "blobs/mine").await;
        check(&["records.jsonl", "blobs/ab/cd"], "blobs/ab").await;
        let hash = BlobHash::of(b"mine").to_string();
        check(&[&format!("blobs/{hash}")], &format!("blobs/{hash}")).await;
        check(&[&format!("blobs/{hash}"), "records.jsonl", "notes.txt"], "notes.txt").await;
        // A file of that name is somebody's, a folder the disk's.
        check(&["lost+found"], "lost+found").await;
        let disk = tempfile::tempdir().unwrap();
        std::fs::create_dir(disk.path().join("lost+found")).unwrap();
        assert_eq!(backup(&*store, disk.path(), |_| ()).await.unwrap().records.total(), 1);
    });
}

#[test]
fn turns_that_are_sent_without_waiting_are_written_in_the_order_of_the_queue() {
    run(async {
        let fresh = common::sqlite();
        let store = fresh.open().await;
        let sent: Vec<_> = std::iter::once(write(1)).chain((1..50).map(|turn_idx| turn(1, turn_idx))).collect();
        // Each is polled once, in order, before any is waited for; some may be written by then.
        let mut puts = Vec::new();
        for write in sent {
            let mut put = store.put(vec![write]);
            let polled = std::future::poll_fn(|context| std::task::Poll::Ready(put.as_mut().poll(context))).await;
            puts.push((put, polled));
        }
        for (put, polled) in puts {
            let written = match polled {
                std::task::Poll::Ready(written) => written,
                std::task::Poll::Pending => put.await,
            };
            assert_eq!(written.unwrap(), [Put::New]);
        }
        assert_eq!(store.trace(trace(1).id).await.unwrap(), Some(grown(1, 50)));
    });
}

#[test]
#[cfg(unix)]
fn a_store_in_a_read_only_folder_says_so() {
    use std::os::unix::fs::PermissionsExt as _;
    run(async {
        let fresh = common::sqlite();
        fresh.open().await.put(vec![write(1)]).await.unwrap();
        let folder = folder_of(&fresh.place);
        let allow = |mode| std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).unwrap();
        allow(0o555);
        let is_root = std::fs::write(folder.join("trial"), b"").is_ok();
        let opened = hone_store::open(&fresh.place, &Options::default()).await.err().map(|error| error.to_string());
        allow(0o755);
        if is_root {
            return eprintln!("skipped: whoever runs this may write into every folder");
        }
        assert!(opened.as_ref().is_some_and(|error| error.contains("its folder is read-only")), "{opened:?}");
    });
}

#[test]
fn two_processes_worth_of_stores_write_to_one_file() {
    run(async {
        let fresh = common::sqlite();
        let (one, two) = (fresh.open().await, fresh.open().await);
        let writing = async |store: &dyn hone_store::Database, first: u32| {
            for n in first..first + 50 {
                store.put(vec![write(n)]).await.unwrap();
            }
        };
        tokio::join!(writing(&*one, 0), writing(&*two, 50));
        assert_eq!(common::count(&*one).await, 100);
    });
}

#[test]
fn a_fresh_file_is_opened_by_many_at_once() {
    run(async {
        for _ in 0..20 {
            let fresh = common::sqlite();
            let openers: Vec<_> = (0..8)
                .map(|_| {
                    let place = fresh.place.clone();
                    tokio::spawn(async move { hone_store::open(&place, &Options::default()).await.map(drop) })
                })
                .collect();
            for opener in openers {
                opener.await.unwrap().unwrap();
            }
        }
    });
}

#[test]
fn the_log_is_emptied_under_steady_load() {
    run(async {
        let fresh = common::sqlite();
        let store = fresh.open().await;
        let text = "x".repeat(100_000);
        for n in 0..1500 {
            let mut trace = trace(n);
            trace.metadata.insert("text".into(), text.clone().into());
            store.put(vec![Write::Trace(Box::new(trace))]).await.unwrap();
        }
        let log = std::fs::metadata(folder_of(&fresh.place).join("hone.db-wal")).unwrap().len();
        assert!(log < 100 << 20, "150 MB were written and the log holds {log} bytes");
    });
}
