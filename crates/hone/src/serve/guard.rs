//! Who can reach the server, and what they need for it: an address, the names it is known by, TLS and keys.
//!
//! What other machines can reach asks for a key, and the key does not cross the wire in the open.

use crate::context::Context;
use crate::failure::{Failure, at_path};
use crate::key;
use hone_gateway::keys::{self, Key};
use hone_gateway::{Access, Tls};
use hone_trace::store::Store;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub(super) struct GuardArgs {
    /// Answer to requests for this host name, besides those of the machine itself
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// Speak TLS with the certificate in this PEM file, followed by those that it leans on
    #[arg(long, value_name = "FILE", requires = "tls_key", conflicts_with = "behind_tls_proxy")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate: a PEM file without a password
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Let a proxy speak TLS with other machines, and plain HTTP with this one
    #[arg(long)]
    behind_tls_proxy: bool,
    /// The most requests a minute with a key that has no limit of its own; without keys, of all together
    #[arg(long, value_name = "N")]
    pub(super) requests_per_minute: Option<NonZeroU32>,
}

/// What the command line says of it; the keys are in the store.
pub(super) struct Guard {
    pub(super) address: SocketAddr,
    pub(super) hosts: Vec<String>,
    pub(super) tls: Option<Tls>,
    /// Whether clients speak TLS, with this server or with a proxy before it.
    pub(super) is_encrypted: bool,
}

impl GuardArgs {
    /// All that can be said before the store is opened.
    pub(super) fn guard(&self, address: SocketAddr, context: &Context<'_>) -> Result<Guard, Failure> {
        let is_reached = !address.ip().is_loopback();
        if is_reached && self.tls_cert.is_none() && !self.behind_tls_proxy {
            let text = format!("{address} can be reached from other machines, and keys would cross the wire in the open");
            return Err(Failure::user(text)
                .hint("give --tls-cert FILE and --tls-key FILE, or --behind-tls-proxy where a proxy speaks TLS with them"));
        }
        if self.behind_tls_proxy && !is_reached {
            return Err(Failure::user(format_args!(
                "--behind-tls-proxy is for an address that other machines can reach, and {address} is none"
            ))
            .hint("leave it out: a proxy on this machine reaches the server as it is"));
        }
        let mut hosts: Vec<String> = context.settings.serve.hosts.iter().chain(&self.hosts).cloned().collect();
        if let Some(wrong) = hosts.iter().find(|host| !is_host(host)) {
            return Err(Failure::user(format_args!("`{wrong}` is not a host name"))
                .hint("write the name alone, such as hone.example.com, without https:// and without a port"));
        }
        if address.ip().is_unspecified() && hosts.is_empty() {
            return Err(Failure::user(format_args!("{address} is every address of this machine, and no host name is given"))
                .hint("name what clients call it with --host NAME: requests for any other host are refused"));
        }
        hosts.extend((!address.ip().is_unspecified()).then(|| literal(address.ip())));
        let is_encrypted = self.tls_cert.is_some() || self.behind_tls_proxy;
        Ok(Guard { address, hosts, tls: self.tls()?, is_encrypted })
    }

    fn tls(&self) -> Result<Option<Tls>, Failure> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        let read = |path: &Path| std::fs::read(path).map_err(at_path(path));
        let tls = Tls::new(&read(certificate)?, &read(key)?);
        tls.map(Some).map_err(|error| {
            let path = if error.is_of_key() { key } else { certificate };
            Failure::user(format_args!("{}: {error}", path.display()))
        })
    }
}

impl Guard {
    /// Who gets in, and how many keys there are. Without any, this machine does.
    pub(super) async fn access(&self, store: &dyn Store, context: &Context<'_>) -> Result<(Access, usize), Failure> {
        let all = keys::all(store).await.map_err(key::failed)?;
        all.damaged.iter().for_each(|key| context.printer.complain(&key.to_string()));
        let are_needed = all.are_needed();
        let live: Vec<Key> = all.sound.into_iter().filter(Key::is_live).collect();
        let n_keys = live.len();
        if n_keys == 0 && are_needed {
            // One that cannot be read may have been live: who has none is not let in.
            return Err(Failure::user("no key can be read, so nobody would be let in")
                .hint("`hone store restore` puts back what a back-up holds; `hone key add NAME --role call` makes another key"));
        }
        if n_keys > 0 {
            let keys = live.into_iter().map(|key| (key.hash, key.identity()));
            return Ok((Access::keys(keys).map_err(Failure::user)?, n_keys));
        }
        if !self.address.ip().is_loopback() {
            let address = self.address;
            return Err(Failure::user(format_args!("{address} can be reached from other machines, and there is no key"))
                .hint("make one with `hone key add NAME --role call`"));
        }
        Ok((Access::open(context.settings.tenant.clone()), 0))
    }

    /// What an address begins with.
    pub(super) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}

/// Whether this is a name as it stands in a Host header, without the port.
fn is_host(name: &str) -> bool {
    let is_named = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'));
    let is_v6 = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).is_some_and(|ip| ip.parse::<IpAddr>().is_ok());
    !name.is_empty() && (is_named || is_v6)
}

/// An address as it stands in a Host header.
fn literal(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_alone() {
        for good in ["hone.example.com", "localhost", "10.0.0.7", "[fe80::1]", "my_host"] {
            assert!(is_host(good), "{good}");
        }
        for bad in ["", "https://hone.example.com", "hone.example.com:443", "a b", "fe80::1", "[x]", "*"] {
            assert!(!is_host(bad), "{bad}");
        }
        assert_eq!(literal("fe80::1".parse().unwrap()), "[fe80::1]");
    }
}
