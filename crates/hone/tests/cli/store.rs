//! `hone store`: a back-up comes back whole, damage is seen.

use super::Desk;

const CHAT: &str =
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}\n{\"messages\":[{\"role\":\"user\",\"content\":\"Ho\"}]}\n";

#[test]
fn a_back_up_comes_back_whole() {
    let desk = Desk::with(&[("chat.jsonl", CHAT)]);
    desk.hone("trace import chat.jsonl").expect(0, "", "2 new");
    desk.hone("store info").expect(0, "traces     2\n", "");
    desk.hone("store info --json").expect(0, "\"traces\":2", "");
    desk.hone("store verify").expect(0, "", "3 records and 0 blobs are what was written");
    desk.hone("store verify --json").expect(0, "\"n_complaints\":0", "");
    desk.hone("store backup copy").expect(0, "", "backed up 3 records and 0 blobs: copy");
    desk.hone("store backup copy").expect(2, "", "there is a back-up here already");
    desk.hone("store restore copy --folder other").expect(0, "", "restored 3 records");
    desk.hone("store restore copy --folder other").expect(2, "", "the store has 3 records already");
    desk.hone("store restore copy --folder other --merge --json").expect(0, "\"same\":3", "");
    desk.hone("store restore copy --folder other --merge").expect(0, "", "restored 0 records and 0 blobs, 3 there already");
    let export = |folder: &str| desk.hone(&format!("trace export --folder {folder}")).out;
    assert_eq!(export(".hone"), export("other"));
}

#[test]
fn turns_and_rewards_count_whether_they_came_with_their_trace_or_later() {
    let line = |rest: &str| format!("{{\"messages\":[{{\"role\":\"assistant\",\"content\":\"Hi\"}}]{rest}}}\n");
    let recipe = "components = [{ name = 'done', kind = 'outcome', weight = 1.0, role = 'primary' }]";
    let chat = [line(",\"reward\":0.5"), line(",\"user\":\"a\""), line("")].concat();
    let desk = Desk::with(&[("chat.jsonl", chat.as_str()), ("recipe.toml", recipe)]);
    desk.hone("trace import chat.jsonl").expect(0, "", "3 new");
    desk.hone("store info --json").expect(0, "\"rewarded\":1", "").expect(0, "\"turns\":3", "");
    desk.hone("reward score --recipe recipe.toml --field metadata.user=a").expect(0, "1 scored", "");
    desk.hone("store info --json").expect(0, "\"rewarded\":2", "");
    desk.hone("store info").expect(0, "rewarded   2\n", "").expect(0, "turns      3\n", "");
}

#[test]
fn what_is_not_a_back_up_is_refused() {
    let desk = Desk::with(&[("chat.jsonl", CHAT)]);
    desk.hone("store backup copy").expect(2, "", "there are no records in ");
    desk.hone("store restore nowhere").expect(2, "", "nowhere: there is no manifest.json");
    desk.hone("trace import chat.jsonl").expect(0, "", "2 new");
    desk.hone("store backup copy").expect(0, "", "backed up");
    let records = desk.read("copy/records.jsonl").replace("Hi", "He");
    std::fs::write(desk.path("copy/records.jsonl"), records).unwrap();
    desk.hone("store restore copy --folder other").expect(2, "", "not those that the manifest speaks of");
}

#[test]
fn damage_does_not_enter_a_back_up_and_is_repaired_from_one() {
    let desk = Desk::with(&[("chat.jsonl", CHAT)]);
    desk.hone("trace import chat.jsonl").expect(0, "", "2 new");
    desk.hone("store backup sound").expect(0, "", "backed up 3 records");
    let database = rusqlite::Connection::open(desk.path(".hone/hone.db")).unwrap();
    let changed = "UPDATE bodies SET body = replace(body, 'Hi', 'He') WHERE body LIKE '%Hi%'";
    assert_eq!(database.execute(changed, []).unwrap(), 1);
    drop(database);
    desk.hone("store backup damaged").expect(1, "is not what was written", "backed up 2 records and 0 blobs, 1 thing damaged");
    assert!(desk.read("damaged/manifest.json").contains("is not what was written"));
    desk.hone("store restore damaged --folder other").expect(0, "", "1 damaged when this was backed up");
    desk.hone("store restore sound --merge").expect(
        0,
        "",
        "restored 1 record and 0 blobs, 1 of them damaged before, 2 there already",
    );
    desk.hone("store verify").expect(0, "", "3 records and 0 blobs are what was written");
}
