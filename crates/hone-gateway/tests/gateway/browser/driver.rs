//! A browser that is driven as a person would: a small client of the WebDriver protocol, and the chromedriver behind it.

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long something may take to appear.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a browser is started at most.
const N_STARTS: usize = 3;
/// The word under which the protocol hides the id of an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser with one window.
pub(super) struct Browser {
    driver: Child,
    http: reqwest::Client,
    session: String,
    /// Where both leave what they do not take with them.
    _folder: TempDir,
}

/// Something on the page, and how it was found.
pub(super) struct Element<'a> {
    browser: &'a Browser,
    wanted: Value,
    id: String,
}

impl Browser {
    /// Starts one; says why there is none where this machine has no Chromium. A busy machine may fail to bring it up, which says nothing
    /// of our pages: then it is tried again.
    pub(super) async fn start() -> Option<Self> {
        for _ in 1..N_STARTS {
            if let Ok(browser) = Self::try_start().await {
                return browser;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Self::try_start().await.unwrap_or_else(|why| panic!("no browser: {why}"))
    }

    async fn try_start() -> Result<Option<Self>, String> {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("chromedriver");
        let started = command.arg("--port=0").env("TMPDIR", folder.path()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut driver = match started {
            Ok(driver) => driver,
            Err(error) => {
                skipped(&format!("chromedriver does not start ({error})"));
                return Ok(None);
            }
        };
        let port = port(&mut driver);
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let mut browser = Self { driver, http, session: format!("http://127.0.0.1:{port}/session"), _folder: folder };
        let arguments =
            ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars", "--window-size=1360,900"];
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let told = browser.try_send("POST", "", &wanted).await?;
        match told["value"]["sessionId"].as_str() {
            Some(id) => browser.session = format!("{}/{id}", browser.session),
            None if told.to_string().contains("cannot find Chrome binary") => {
                skipped("chromedriver finds no Chromium");
                return Ok(None);
            }
            None => return Err(told.to_string()),
        }
        Ok(Some(browser))
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        self.try_send(method, path, body).await.unwrap_or_else(|why| panic!("{why}"))
    }

    async fn try_send(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let url = format!("{}{path}", self.session);
        let request = if method == "GET" { self.http.get(url) } else { self.http.post(url).body(body.to_string()) };
        let failed = |error: reqwest::Error| format!("{path}: {error:?}");
        let text = request.send().await.map_err(failed)?.text().await.map_err(failed)?;
        serde_json::from_str(&text).map_err(|error| format!("{path}: {error}: {text}"))
    }

    /// What a command gives; one that fails ends the test.
    async fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let told = self.send(method, path, body).await;
        assert!(told["value"]["error"].is_null(), "{path} {body}: {}", told["value"]);
        told["value"].clone()
    }

    pub(super) async fn open(&self, url: &str) {
        self.ask("POST", "/url", &json!({"url": url})).await;
    }

    /// The path and query of the page that is shown.
    pub(super) async fn place(&self) -> String {
        self.script("return location.pathname + location.search").await.as_str().unwrap().to_owned()
    }

    /// The first that fits a CSS selector, as soon as there is one.
    pub(super) async fn find(&self, selector: &str) -> Element<'_> {
        self.element(json!({"using": "css selector", "value": selector})).await
    }

    /// The link with this text.
    pub(super) async fn link(&self, text: &str) -> Element<'_> {
        self.element(json!({"using": "link text", "value": text})).await
    }

    async fn element(&self, wanted: Value) -> Element<'_> {
        Element { id: self.look(&wanted).await, browser: self, wanted }
    }

    /// The id of what is wanted, as soon as it is there.
    async fn look(&self, wanted: &Value) -> String {
        let began = Instant::now();
        loop {
            let told = self.send("POST", "/element", wanted).await;
            if let Some(id) = told["value"][ELEMENT].as_str() {
                return id.to_owned();
            }
            assert!(began.elapsed() < PATIENCE, "there is no {}: {}", wanted["value"], self.text().await);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// All text that is shown.
    pub(super) async fn text(&self) -> String {
        self.script("return document.body.innerText").await.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the page says this.
    pub(super) async fn until(&self, says: &str) {
        let began = Instant::now();
        loop {
            let text = self.text().await;
            if text.contains(says) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "the page does not say {says}: {text}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until it is at an address with these words: the page before may say what the next one will.
    pub(super) async fn until_at(&self, words: &str) {
        let began = Instant::now();
        while !self.place().await.contains(words) {
            assert!(began.elapsed() < PATIENCE, "the browser stays at {}", self.place().await);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(super) async fn script(&self, script: &str) -> Value {
        self.ask("POST", "/execute/sync", &json!({"script": script, "args": []})).await
    }

    /// Presses a key, such as Tab.
    pub(super) async fn press(&self, key: char) {
        let actions = json!([{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]);
        self.ask("POST", "/actions", &json!({"actions": [{"type": "key", "id": "keys", "actions": actions}]})).await;
    }

    /// Shows pages as on a screen of this size.
    pub(super) async fn resize(&self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500});
        self.tell("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// Shows pages as somebody sees them who wants them `light` or `dark`.
    pub(super) async fn prefer(&self, scheme: &str) {
        self.tell("Emulation.setEmulatedMedia", json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]})).await;
    }

    /// Tells Chromium something that the protocol has no word for.
    async fn tell(&self, command: &str, parameters: Value) -> Value {
        self.ask("POST", "/goog/cdp/execute", &json!({"cmd": command, "params": parameters})).await
    }

    /// Keeps what is shown, from top to bottom, under `target/screenshots`.
    pub(super) async fn keep(&self, name: &str) {
        let size = self.script("const all = document.documentElement; return [all.clientWidth, all.scrollHeight]").await;
        let clip = json!({"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1});
        let taken = self.tell("Page.captureScreenshot", json!({"captureBeyondViewport": true, "clip": clip})).await;
        let picture = BASE64_STANDARD.decode(taken["data"].as_str().unwrap()).unwrap();
        let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let folder = target.parent().unwrap().join("screenshots");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{name}.png")), picture).unwrap();
    }

    /// What the browser complained about since it was asked last.
    pub(super) async fn complaints(&self) -> Vec<String> {
        let log = self.ask("POST", "/se/log", &json!({"type": "browser"})).await;
        let is_bad = |entry: &&Value| matches!(entry["level"].as_str(), Some("SEVERE" | "WARNING"));
        log.as_array().unwrap().iter().filter(is_bad).map(ToString::to_string).collect()
    }
}

impl Drop for Browser {
    /// Chromium ends with the driver, which ends when it is asked to; killed, it would leave it behind.
    fn drop(&mut self) {
        let address = self.session.strip_prefix("http://").and_then(|rest| rest.split_once('/'));
        if let Some((host, path)) = address
            && let Ok(mut stream) = std::net::TcpStream::connect(host)
        {
            use std::io::{Read, Write};
            let asked = write!(stream, "DELETE /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
            // It answers when Chromium has ended, and does not close the connection.
            drop(asked.and_then(|()| stream.set_read_timeout(Some(Duration::from_secs(10)))));
            drop(stream.read(&mut [0; 1024]));
        }
        drop(self.driver.kill());
        drop(self.driver.wait());
    }
}

impl Element<'_> {
    pub(super) async fn click(&self) {
        self.ask("POST", "click", &json!({})).await;
    }

    pub(super) async fn text(&self) -> String {
        self.ask("GET", "text", &Value::Null).await.as_str().unwrap().to_owned()
    }

    /// Types into it.
    pub(super) async fn write(&self, text: &str) {
        self.ask("POST", "value", &json!({"text": text})).await;
    }

    /// Does something with it; where a page that moves has put another in its place, with that one, as a hand would.
    async fn ask(&self, method: &str, action: &str, body: &Value) -> Value {
        let (began, mut id) = (Instant::now(), self.id.clone());
        loop {
            let told = self.browser.send(method, &format!("/element/{id}/{action}"), body).await;
            let error = &told["value"]["error"];
            if error.is_null() {
                return told["value"].clone();
            }
            let is_gone = *error == "stale element reference" && began.elapsed() < PATIENCE;
            assert!(is_gone, "{action} {}: {}", self.wanted, told["value"]);
            id = self.browser.look(&self.wanted).await;
        }
    }
}

#[expect(clippy::print_stdout, reason = "who runs the tests should know what they did not try")]
fn skipped(why: &str) {
    println!("skipped: {why}; apt-get install chromium chromium-driver brings it");
}

/// The port that a driver says it listens on.
fn port(driver: &mut Child) -> u16 {
    let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    for line in lines.map_while(Result::ok) {
        if let Some((_, port)) = line.split_once("started successfully on port ") {
            return port.trim_end_matches('.').parse().unwrap();
        }
    }
    panic!("chromedriver ended before it listened")
}
