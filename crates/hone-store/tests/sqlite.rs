//! What only SQLite can get wrong: files that are not its own, damage, other processes.

mod common;

use common::{folder_of, trace, write};
use hone_store::{Options, verify};
use hone_trace::store::StoreError;

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
fn the_log_is_emptied_under_steady_load() {
    run(async {
        let fresh = common::sqlite();
        let store = fresh.open().await;
        let text = "x".repeat(100_000);
        for n in 0..1500 {
            let mut trace = trace(n);
            trace.metadata.insert("text".into(), text.clone().into());
            store.put(vec![hone_trace::store::Write::Trace(Box::new(trace))]).await.unwrap();
        }
        let log = std::fs::metadata(folder_of(&fresh.place).join("hone.db-wal")).unwrap().len();
        assert!(log < 100 << 20, "150 MB were written and the log holds {log} bytes");
    });
}
