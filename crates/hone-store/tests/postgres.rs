//! What only PostgreSQL can get wrong: URLs, rights, other settings of the server, other processes.

mod common;

use hone_store::{Options, Place};
use hone_trace::store::StoreError;

/// Runs a case with a database of its own, or says that there is no server.
fn on_postgres(case: impl AsyncFn(common::Fresh, String)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        match common::postgres().await {
            Some(fresh) => {
                let Place::Postgres(url) = &fresh.place else { panic!("a PostgreSQL store has a URL") };
                let url = url.clone();
                case(fresh, url).await;
            }
            None => println!("skipped: HONE_TEST_POSTGRES is not set (`cargo xtask test` sets it)"),
        }
    });
}

async fn refusal(url: &str) -> StoreError {
    let opened = hone_store::open(&Place::Postgres(url.to_owned()), &Options::default()).await;
    opened.err().expect("the store does not open")
}

#[tokio::test]
async fn a_url_that_is_refused_is_not_repeated() {
    let cases = [
        ("postgres://u:S3cret@Pw@host/db", "%40"),
        ("postgres://u:S3cret@Pw:1@host:5432/db", "%40"),
        ("postgres://u:S3cret@Pw/x@host/db", "%40"),
        ("postgres://u:S3cret@Pw?x=1@host/db", "%40"),
        ("postgresql://u:S3cret@Pw#@host", "%40"),
        ("postgres://u:S3cret@Pw%40host/db", "%40"),
        ("postgres://u:S3cret@host/Pw%40db", "%40"),
        ("postgres://u:S3cret@host:Pw/db", "`port`"),
        ("postgres://u:S3cret@host/db?sslmode=require", "tunnel"),
        ("postgres://u:S3cret@host/db?sslmode=verify-full", "sslmode"),
        ("postgres://u:S3cret@host/db?sslrootcert=/Pw", "`sslrootcert`"),
        ("u:S3cret-Pw", "postgres://user:password@host:port/database"),
    ];
    for (url, words) in cases {
        let error = refusal(url).await.to_string();
        assert!(error.starts_with("the database URL: ") && error.contains(words), "{url}: {error}");
        assert!(!error.contains("S3cret") && !error.contains("Pw"), "{url}: {error}");
    }
}
