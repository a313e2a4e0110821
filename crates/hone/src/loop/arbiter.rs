//! The arbiter of a loop: the gateway in this process, on a port of its own, with the model that the agent is made of.

use crate::adapters::Wardrobe;
use crate::clock::{RealClock, now};
use crate::context::Context;
use crate::failure::Failure;
use crate::key::Lent;
use crate::policy;
use hone_engine::config::ModelConfig;
use hone_engine::machine::Machine;
use hone_gateway::{Access, Catalogue, Gateway, Limits, Local, Model, Setup, Who, serve};
use hone_policy::local::Local as LocalPolicy;
use hone_store::Database;
use hone_trace::Tenant;
use hone_trace::store::Store;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// The name of the feedback that says how well an episode went.
pub(super) const OUTCOME: &str = "solved";
/// Conversations at once.
pub(super) const N_CONVERSATIONS: usize = 128;
/// What the gateway has said and nobody has printed yet.
const N_SAID_MAX: usize = 256;

/// The gateway of a loop.
pub(super) struct Arbiter<'a> {
    runtime: &'a Runtime,
    model: String,
    /// Where it listens, such as `http://127.0.0.1:41234`.
    pub(super) url: String,
    /// What it lets its own customers in by, where it asks for keys.
    lent: Option<Lent>,
    keys: Arc<dyn Store>,
    tenant: Tenant,
    /// The model, without an adapter, and what adapters must fit.
    pub(super) voice: Arc<LocalPolicy<Machine>>,
    pub(super) config: ModelConfig,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<()>>,
    said: mpsc::Receiver<String>,
}

impl<'a> Arbiter<'a> {
    /// Serves a model of this machine under its own name.
    pub(super) fn open(
        model: &str,
        context_len: usize,
        threads: Option<usize>,
        store: &Arc<dyn Database>,
        runtime: &'a Runtime,
        context: &Context<'_>,
    ) -> Result<Self, Failure> {
        // While it answers, the same model learns beside it.
        let (voice, config) = policy::voice(model, context_len, N_CONVERSATIONS, threads, 2, context)?;
        let voice = Arc::new(voice);
        let who = Who::Local(Arc::new(Local::new(Arc::clone(&voice) as _)));
        let catalogue = Catalogue::new(vec![Model::new(model, vec![who])]).map_err(Failure::user)?;
        let store = Arc::clone(store) as Arc<dyn Store>;
        let models = BTreeMap::from([(model.to_owned(), (Arc::clone(&voice), config.clone()))]);
        let wardrobe = Wardrobe { models, store: Arc::clone(&store), cache: context.settings.folder.join("adapters") };
        let (log, said) = mpsc::channel(N_SAID_MAX);
        let tenant = context.settings.tenant.clone();
        let lent = runtime.block_on(Lent::where_needed(&*store, &tenant))?;
        let keys = Arc::clone(&store);
        let setup = Setup {
            catalogue,
            routes: Vec::new(),
            tasks: Vec::new(),
            thrift: context.settings.thrift,
            outcome: Some(OUTCOME.to_owned()),
            adapters: Some(Arc::new(wardrobe)),
            store,
            clock: Arc::new(RealClock),
            // Where the store has keys, the gateway finds them before it lets anybody in.
            access: Access::open(tenant.clone()),
            tls: None,
            limits: Limits::default(),
            hosts: Vec::new(),
            seed: now().unix_nanos().unsigned_abs(),
            dashboard: crate::serve::dashboard(false, context),
            log,
        };
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0))).map_err(Failure::world)?;
        let url = format!("http://{}", listener.local_addr().map_err(Failure::world)?);
        let (stop, stopped) = oneshot::channel();
        let serving = runtime.spawn(serve(Gateway::new(setup), listener, async {
            // Who drops the other end wants it to stop, too.
            let _ = stopped.await;
        }));
        Ok(Self {
            runtime,
            model: model.to_owned(),
            url,
            lent,
            keys,
            tenant,
            voice,
            config,
            stop: Some(stop),
            serving: Some(serving),
            said,
        })
    }

    /// The key of its own customers, where it asks for one.
    pub(super) fn key(&self) -> Option<&str> {
        self.lent.as_ref().map(|lent| lent.secret.as_str())
    }

    /// The name of the model.
    pub(super) fn model(&self) -> &str {
        &self.model
    }

    /// What the gateway has to say to a person.
    pub(super) fn said(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.said.try_recv().ok()).collect()
    }
}

impl Drop for Arbiter<'_> {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(serving) = self.serving.take() {
            // What is underway ends first.
            let _ = self.runtime.block_on(serving);
        }
        if let Some(lent) = self.lent.take() {
            let _ = self.runtime.block_on(lent.give_back(&*self.keys, &self.tenant));
        }
    }
}
