//! What only PostgreSQL can get wrong: URLs, rights, other settings of the server, other processes.

use crate::common::{self, trace, write};
use hone_store::{Options, Place, backup, verify};
use hone_trace::Tenant;
use hone_trace::store::{Field, Put, Store, StoreError, TraceQuery, Write};

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
            #[expect(clippy::print_stdout, reason = "a test that skips a part says so")]
            None => println!("skipped: HONE_TEST_POSTGRES is not set (`cargo xtask test` sets it)"),
        }
    });
}

/// Speaks to the server beside the store.
async fn client(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("the server answers");
    tokio::spawn(connection);
    client
}

/// Makes a role that may connect, with these further settings; its name, and the URL for it.
async fn role(url: &str, settings: &str) -> (String, String) {
    let (rest, database) = url.rsplit_once('/').expect("a URL with a database");
    let (_, server) = rest.rsplit_once('@').expect("a URL with a user");
    let name = format!("role_{database}");
    client(url).await.batch_execute(&format!("CREATE ROLE {name} LOGIN PASSWORD 'pw' {settings}")).await.expect("a role");
    (name.clone(), format!("postgres://{name}:pw@{server}/{database}"))
}

async fn open(url: &str) -> std::sync::Arc<dyn hone_store::Database> {
    hone_store::open(&Place::Postgres(url.to_owned()), &Options::default()).await.expect("the store opens")
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
        ("postgres://u:S3cret?Pw=1@host/db", "%3F"),
        ("postgresql://u:S3cret@Pw#@host", "%40"),
        ("postgres://u:S3cret@Pw%40host/db", "%40"),
        ("postgres://u:S3cret@host/Pw%40db", "%40"),
        ("postgres://u:S3cret@host:Pw/db", "`port`"),
        ("postgres://u:S3cret@host/db?sslmode=require", "tunnel"),
        ("postgres://u:S3cret@host/db?sslmode=verify-full", "sslmode"),
        ("postgres://u:S3cret@host/db?sslrootcert=/Pw", "`sslrootcert`"),
        ("host=host user=u password=S3cret Pw=1", "postgres://user:password@host:port/database"),
        ("u:S3cret-Pw", "postgres://user:password@host:port/database"),
    ];
    for (url, words) in cases {
        let error = refusal(url).await.to_string();
        assert!(error.starts_with("the database URL: ") && error.contains(words), "{url}: {error}");
        assert!(!error.contains("S3cret") && !error.contains("Pw"), "{url}: {error}");
    }
}

/// A restore in a server's back gives tenants other numbers.
#[test]
fn traces_go_to_their_tenant_also_where_the_database_was_replaced() {
    on_postgres(async |fresh, url| {
        let store = fresh.open().await;
        let of =
            |tenant: &str, n: u32| Write::Trace(Box::new(hone_trace::Trace { tenant: Tenant::new(tenant).unwrap(), ..trace(n) }));
        store.put(vec![of("first", 1), of("second", 2)]).await.unwrap();
        let replaced =
            "TRUNCATE hone.traces, hone.tenants RESTART IDENTITY CASCADE; INSERT INTO hone.tenants (name) VALUES ('second')";
        client(&url).await.batch_execute(replaced).await.unwrap();
        for n in 3..20 {
            store.put(vec![of("first", n)]).await.unwrap();
        }
        let held = async |tenant: &str| {
            let query = TraceQuery { tenant: Some(Tenant::new(tenant).unwrap()), ..TraceQuery::default() };
            store.traces(&query, None, 100).await.unwrap().items.len()
        };
        assert_eq!((held("first").await, held("second").await), (17, 0));
    });
}

#[test]
fn a_role_that_may_only_read_reads_and_is_told_what_it_lacks() {
    on_postgres(async |fresh, url| {
        let (name, theirs) = role(&url, "").await;
        let error = refusal(&theirs).await.to_string();
        assert!(error.contains("GRANT CREATE ON DATABASE"), "{error}");
        fresh.open().await.put(vec![write(1)]).await.unwrap();
        let error = refusal(&theirs).await.to_string();
        assert!(error.contains("GRANT USAGE ON SCHEMA hone"), "{error}");
        let grants = format!("GRANT USAGE ON SCHEMA hone TO {name}; GRANT SELECT ON ALL TABLES IN SCHEMA hone TO {name}");
        client(&url).await.batch_execute(&grants).await.unwrap();
        reads_all(&theirs).await;
        let error = open(&theirs).await.put(vec![write(2)]).await.unwrap_err().to_string();
        assert!(error.contains("permission denied"), "{error}");
        assert_eq!(error.matches("postgres").count(), 1, "the place is said once: {error}");
    });
}

/// All that reads does so on a store with one trace.
async fn reads_all(url: &str) {
    let store = open(url).await;
    assert_eq!(common::count(&*store).await, 1);
    assert_eq!(store.trace(trace(1).id).await.expect("it reads"), Some(trace(1)));
    assert_eq!(store.info().await.expect("it reads").counts.traces, 1);
    assert_eq!(verify(&*store, |_| ()).await.expect("it reads").complaints, [] as [&str; 0]);
    let folder = tempfile::tempdir().expect("it reads");
    assert_eq!(backup(&*store, folder.path(), |_| ()).await.expect("it reads").records.traces, 1);
}

#[test]
fn a_server_that_takes_no_writes_is_read() {
    on_postgres(async |fresh, url| {
        fresh.open().await.put(vec![write(1)]).await.unwrap();
        let (_, database) = url.rsplit_once('/').unwrap();
        let standby = format!("ALTER DATABASE {database} SET default_transaction_read_only = on");
        client(&url).await.batch_execute(&standby).await.unwrap();
        reads_all(&url).await;
        let store = fresh.open_with(&["metadata.customer"]).await;
        assert_eq!(found(&*store).await, 1, "a field that cannot be indexed is looked up in the bodies");
    });
}

/// How many traces have the customer of the first sample.
async fn found(store: &dyn Store) -> usize {
    let field = Some(Field { path: "metadata.customer".into(), value: "c1".into() });
    store.heads(&TraceQuery { field, ..TraceQuery::default() }, None, 100).await.expect("a list").items.len()
}

#[test]
fn an_index_of_a_field_that_was_cut_short_is_not_used_and_is_made_anew() {
    on_postgres(async |fresh, url| {
        fresh.open_with(&["metadata.customer"]).await.put(vec![write(1), write(6)]).await.unwrap();
        let cut = "INSERT INTO hone.meta VALUES ('indexing metadata.customer', ''); DELETE FROM hone.trace_fields";
        client(&url).await.batch_execute(cut).await.unwrap();
        let store = fresh.open().await;
        assert_eq!(found(&*store).await, 2);
        store.put(vec![write(11)]).await.unwrap();
        let store = fresh.open_with(&["metadata.customer"]).await;
        assert_eq!(found(&*store).await, 3);
        let sql = "SELECT (SELECT count(*) FROM hone.trace_fields), count(*) FROM hone.meta";
        let row = client(&url).await.query_one(sql, &[]).await.unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (3, 1), "all are indexed, and the mark is gone");
    });
}

#[test]
fn servers_that_start_together_agree_where_transactions_are_serializable_by_default() {
    on_postgres(async |_, url| {
        let (_, database) = url.rsplit_once('/').unwrap();
        let strict = format!("ALTER DATABASE {database} SET default_transaction_isolation = 'serializable'");
        client(&url).await.batch_execute(&strict).await.unwrap();
        let mut servers = tokio::task::JoinSet::new();
        for n in 0..6 {
            let url = url.clone();
            servers.spawn(async move { open(&url).await.put(vec![write(n)]).await.expect("the store takes it") });
        }
        assert_eq!(servers.join_all().await, vec![vec![Put::New]; 6]);
    });
}

#[test]
fn a_database_of_another_encoding_is_refused() {
    on_postgres(async |_, url| {
        let latin = format!("{url}_latin1");
        let (_, name) = latin.rsplit_once('/').unwrap();
        let create = format!("CREATE DATABASE {name} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
        client(&url).await.batch_execute(&create).await.unwrap();
        let error = refusal(&latin).await.to_string();
        assert!(error.contains("LATIN1") && error.contains("ENCODING 'UTF8'"), "{error}");
    });
}

#[test]
fn a_schema_that_is_no_number_is_damage() {
    on_postgres(async |fresh, url| {
        drop(fresh.open().await);
        client(&url).await.batch_execute("UPDATE hone.meta SET value = 'two'").await.unwrap();
        let error = refusal(&url).await;
        assert!(matches!(error, StoreError::Damaged { .. }) && error.to_string().contains("`two`, is no number"), "{error}");
    });
}

#[test]
fn readers_share_what_connections_the_server_gives() {
    on_postgres(async |_, url| {
        let (name, theirs) = role(&url, "CONNECTION LIMIT 3").await;
        let (_, database) = url.rsplit_once('/').unwrap();
        client(&url).await.batch_execute(&format!("GRANT CREATE ON DATABASE {database} TO {name}")).await.unwrap();
        let store = open(&theirs).await;
        store.put(vec![write(1)]).await.unwrap();
        let mut readers = tokio::task::JoinSet::new();
        for _ in 0..32 {
            let store = store.clone();
            readers.spawn(async move { store.trace(trace(1).id).await.map(|found| found.is_some()) });
        }
        for found in readers.join_all().await {
            assert!(found.unwrap());
        }
    });
}

#[test]
fn connections_that_the_server_ends_are_replaced() {
    on_postgres(async |fresh, url| {
        let store = fresh.open().await;
        let client = client(&url).await;
        for n in 0..5 {
            store.put(vec![write(n)]).await.unwrap();
            assert_eq!(common::count(&*store).await, n as usize + 1);
            let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                       WHERE datname = current_database() AND pid <> pg_backend_pid()";
            client.query(end, &[]).await.unwrap();
        }
        assert_eq!(store.trace(trace(1).id).await.unwrap(), Some(trace(1)));
    });
}
