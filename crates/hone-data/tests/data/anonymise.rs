//! What is found in which text, and what is promised of every text.

use hone_data::anonymise::{Anonymiser, Hint, Key, Kind, Known, scan};
use hone_data::measure::{Scores, find, of_patterns, score};
use hone_data::sample;
use proptest::prelude::*;

/// The personal data in a text, each as `kind value`.
#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let found: Vec<String> = find(text).into_iter().map(|found| format!("{} {}", found.kind, &text[found.range])).collect();
    assert_eq!(found, expected, "{text}");
}

#[test]
fn e_mail_addresses() {
    check("write to ann@shop.com.", &["email ann@shop.com"]);
    check("<Bob.O'Hara+x@mail.co.uk>", &["email Bob.O'Hara+x@mail.co.uk"]);
    check("user=jo%40mail.org&x=1", &["email jo%40mail.org"]);
    check("a@b, @mention, logo@2x.png, pkg@1.2.3, git@github.com:org/repo", &[]);
    check("Jürgen Müller <jm@post.de>", &["name Jürgen Müller", "email jm@post.de"]);
    check(r"line\nann@shop.com", &["email ann@shop.com"]);
}

#[test]
fn phone_numbers() {
    for number in [
        "+1 415 555 0132",
        "+44 20 7946 0958",
        "+46 (0)8 928 571 38",
        "+447700921916",
        "905-674-3793",
        "(415) 555-1234",
        "415.555.1234",
        "1-800-555-1234",
        "345-899-3560x4587",
        "0490 75 40 81",
        "03.93.92.16.85",
        "07700 063 966",
    ] {
        check(&format!("it is {number}."), &[&format!("phone {number}")]);
    }
    check("Phone:\n60-56-85-91\n", &["phone 60-56-85-91"]);
    check("call 9498777106 today", &["phone 9498777106"]);
    check("my number is 5551234567, contact 98765 43210", &["phone 5551234567", "phone 98765 43210"]);
    check("416 60 039 office", &["phone 416 60 039"]);
    check(r"x\n415-555-1234", &["phone 415-555-1234"]);
    check("00000000-0000-8000-8000-000000000045 and 123-45-6789-0123 and 123-456-7890-12", &[]);
    check(
        "messages: 1000000, called at 1700000000, ISBN 978-3-16-148410-0, 37.774929, -122.419416, security group 123456789",
        &[],
    );
    check("order 9498777106, 2026-03-14 11:34:35, 1,234,567 items, 3.14159265358, 0.123456789", &[]);
}

#[test]
fn cards_accounts_and_machines() {
    check("4111 1111 1111 1111 12/27", &["card 4111 1111 1111 1111"]);
    check("4111111111111112 and 1700000000000", &[]);
    check("card 501864667909", &["card 501864667909"]);
    check("3782-822463-10005", &["card 3782-822463-10005"]);
    check("GB82 WEST 1234 5698 7654 32 please", &["iban GB82 WEST 1234 5698 7654 32"]);
    check("from 86.121.97.248:8080 and 2001:db8::8a2e:370:7334.", &["ip 86.121.97.248", "ip 2001:db8::8a2e:370:7334"]);
    check("252.10.3.7", &["ip 252.10.3.7"]);
    check("127.0.0.1, 255.255.255.0, ::1, version 1.2.3.4, std::de::Error, 12:34:56, 1.2.3.4.5", &[]);
}

#[test]
fn a_word_that_is_cut_short_ends_no_sentence() {
    for before in ["Phone no.", "Mobile No.", "Tel. no.", "Telefon-Nr.", "Phone num.", "contactNumber:", "phone="] {
        check(&format!("{before} 9876543210"), &["phone 9876543210"]);
    }
    check("Passport no. C01X00T47", &["national_id C01X00T47"]);
    check("Driver's license no. D1234567", &["national_id D1234567"]);
    check("SSN no. 123456789", &["ssn 123456789"]);
    check("Tel. 030 / 901820", &["phone 030 / 901820"]);
    check("phone=%2B14155550132", &["phone %2B14155550132"]);
    check(r#"{"contactNumber":"9876543210"}"#, &["phone 9876543210"]);
    let found = scan("9876543210", Hint::of_key("contactNumber"), &Known::default());
    assert_eq!(found.len(), 1, "{found:?}");
    check("He has a phone there. 9876543210 is even, and 100 / 200 / 3000 is small. Order no. 9876543210", &[]);
}

/// What word processors, typesetters and web pages put between digits, and what it is when a person types.
const SIGNS: &[(char, char)] = &[
    ('\u{a0}', ' '),
    ('\u{2002}', ' '),
    ('\u{2007}', ' '),
    ('\u{2009}', ' '),
    ('\u{200b}', ' '),
    ('\u{202f}', ' '),
    ('\u{205f}', ' '),
    ('\u{2060}', ' '),
    ('\u{3000}', ' '),
    ('\u{feff}', ' '),
    ('\u{ad}', '-'),
    ('\u{2010}', '-'),
    ('\u{2011}', '-'),
    ('\u{2012}', '-'),
    ('\u{2013}', '-'),
    ('\u{2014}', '-'),
    ('\u{2212}', '-'),
    ('\u{fe63}', '-'),
    ('\u{ff0d}', '-'),
];

#[test]
fn blanks_and_dashes_of_formatters_separate_digits() {
    for &(sign, plain) in SIGNS {
        for (before, kind, number) in [
            ("paid by ", "card", "4111 1111 1111 1111"),
            ("paid by ", "card", "3782 822463 10005"),
            ("from ", "iban", "DE89 3704 0044 0532 0130 00"),
            ("from ", "iban", "GB82 WEST 1234 5698 7654 32"),
            ("call ", "phone", "415 555 0132"),
            ("it is ", "phone", "(415) 555 0132"),
            ("it is ", "phone", "+44 20 7946 0958"),
            ("it is ", "ssn", "460 89 9847"),
        ] {
            let typed = number.replace(' ', &plain.to_string());
            check(&format!("ü {before}{typed}, ü"), &[&format!("{kind} {typed}")]);
            let set = number.replace(' ', &sign.to_string());
            check(&format!("ü {before}{set}, ü"), &[&format!("{kind} {set}")]);
            let (of_typed, of_set) = (anonymiser().text(&typed).into_owned(), anonymiser().text(&set).into_owned());
            assert_eq!(of_typed, of_set, "{set}");
        }
    }
    check("4111.1111.1111.1111", &["card 4111.1111.1111.1111"]);
    check("call\u{a0}415 555 0132", &["phone 415 555 0132"]);
    check("call me\u{2014}415 555 0132\u{2014}today", &["phone 415 555 0132"]);
    check("Dear\u{a0}Ann\u{a0}Miller,", &["name Ann\u{a0}Miller"]);
    check("NINO AB\u{a0}12\u{a0}34\u{a0}56\u{a0}C", &["national_id AB\u{a0}12\u{a0}34\u{a0}56\u{a0}C"]);
    check("1\u{202f}234\u{202f}567\u{a0}€, 2010\u{2013}2026, 2026\u{2011}03\u{2011}14, pages 12\u{2013}15", &[]);
}

/// What disguises a value for a program and not for a person: signs that nobody sees, and signs of other widths and scripts.
#[test]
fn disguises_are_seen_through() {
    for (before, kind, value) in [
        ("to ", "email", "ann.miller@shop.com"),
        ("it is ", "phone", "+442079460958"),
        ("it is ", "phone", "415-555-0132"),
        ("paid by ", "card", "4111111111111111"),
        ("paid by ", "card", "4111 1111 1111 1111"),
        ("from ", "iban", "DE89370400440532013000"),
        ("from ", "ip", "86.121.97.248"),
        ("it is ", "ssn", "460-89-9847"),
        ("use ", "secret", "sk-abcDEF123ghiJKL456mnoPQR789"),
        ("password: ", "secret", "hunter2!"),
        ("my name is ", "name", "Zebulon Quackenbush"),
    ] {
        let plain = anonymiser().text(&format!("{before}{value}")).replace(before, "");
        for sign in ['\u{200b}', '\u{200c}', '\u{200d}', '\u{2060}', '\u{feff}', '\u{ad}', '\u{200e}', '\u{202e}', '\u{fe0f}'] {
            for at in 1..value.len() {
                let other = format!("{}{sign}{}", &value[..at], &value[at..]);
                check(&format!("ü {before}{other}, ü"), &[&format!("{kind} {other}")]);
                let hidden = anonymiser().text(&format!("{before}{other}")).replace(before, "");
                assert!(kind == "phone" || kind == "ssn" || hidden == plain, "{hidden} for {other:?}, and not {plain}");
            }
            let everywhere: String = value.chars().flat_map(|letter| [letter, sign]).collect();
            let everywhere = everywhere.trim_end_matches(sign);
            check(&format!("{before}{everywhere}{sign}"), &[&format!("{kind} {everywhere}")]);
        }
        let wide: String = value.chars().map(wide).collect();
        check(&format!("ü {before}{wide}, ü"), &[&format!("{kind} {wide}")]);
        assert_eq!(anonymiser().text(&format!("{before}{wide}")).replace(before, ""), plain, "{wide}");
    }
    check("call ٤١٥-٥٥٥-٠١٣٢ or 𝟒𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏", &["phone ٤١٥-٥٥٥-٠١٣٢", "card 𝟒𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏"]);
    check(r"to ann\u200b@shop\uff0ecom now", &[r"email ann\u200b@shop\uff0ecom"]);
    check("电话：＋４４２０７９４６０９５８。", &["phone ＋４４２０７９４６０９５８"]);
    check("写信给 ann@shop.com，谢谢", &["email ann@shop.com"]);
    check(
        "👨\u{200d}👩\u{200d}👧 ok 1\u{fe0f}\u{20e3} one 2\u{fe0f}\u{20e3} two, می\u{200c}خواهم، x² and ½, 全角ＡＢＣ１２３",
        &[],
    );
}

/// The same sign in full width, where there is one.
fn wide(sign: char) -> char {
    if sign == ' ' { '\u{3000}' } else { char::from_u32(u32::from(sign) + 0xfee0).expect("a sign of full width") }
}

#[test]
fn signs_that_a_program_wrote_as_numbers_are_read() {
    check(r#"got {"email":"user1\u0040acme.com"}"#, &[r"email user1\u0040acme.com"]);
    check(r#"{"user":{"email":"user1\u0040acme.com","ph"#, &[r"email user1\u0040acme.com"]);
    check(
        r#"{"email":"bob\u0040acme.com"}
{"email":"eve\u0040acme.com"}"#,
        &[r"email bob\u0040acme.com", r"email eve\u0040acme.com"],
    );
    check(r#"said {\"email\":\"bob\\u0040acme.com\"}"#, &[r"email bob\\u0040acme.com"]);
    check(r#"Result: {"customer_name": "J\u00f6rg M\u00fcller"}"#, &[r"name J\u00f6rg M\u00fcller"]);
    check(r#"got {"p": "\u002B14155550132"}"#, &[r"phone \u002B14155550132"]);
    check("https://x.com/?q=%2B14155550132", &["phone %2B14155550132"]);
    check(r#"matches [\u0030-\u0039]+, C:\users\u00e9 and 100%2Bx"#, &[]);
    // However it is written, it is one value.
    for (one, other) in [("bob@acme.com", r"bob\u0040acme.com"), ("+14155550132", "%2B14155550132")] {
        assert_eq!(anonymiser().text(one), anonymiser().text(other), "{other}");
    }
    let text = r#"my name is J\u00f6rg Quackenb\u00fcsh. Quackenbüsh called {"x": "Quackenb\u00fcsh"}"#;
    let name = anonymiser().text("Mr. Quackenbüsh").replace("Mr. ", "");
    assert_eq!(anonymiser().text(text).matches(&name).count(), 3, "{text}");
}

#[test]
fn numbers_of_states() {
    check("460-89-9847", &["ssn 460-89-9847"]);
    check("my ssn is 460899847", &["ssn 460899847"]);
    check("DNI 12345678Z, NINO AB 12 34 56 C", &["national_id 12345678Z", "national_id AB 12 34 56 C"]);
    check("CPF 529.982.247-25", &["national_id 529.982.247-25"]);
    check("passport number is C01234567", &["national_id C01234567"]);
}

#[test]
fn secrets() {
    check("sk-abcDEF123ghiJKL456mnoPQR789", &["secret sk-abcDEF123ghiJKL456mnoPQR789"]);
    check("AKIAIOSFODNN7EXAMPLE", &["secret AKIAIOSFODNN7EXAMPLE"]);
    check("api_key=\"9fK2jd8Ls0aQ7xPz\"", &["secret 9fK2jd8Ls0aQ7xPz"]);
    check("password: hunter2!", &["secret hunter2!"]);
    check("postgres://app:s3cr3t@db.local/x", &["url_credentials app:s3cr3t"]);
    check("api_key=c2VjcmV0U2VjcmV0MTIz/Zz09==", &["secret c2VjcmV0U2VjcmV0MTIz/Zz09=="]);
    check("the password is incorrect, token: customer_order_id_2024, key=value", &[]);
}

#[test]
fn private_keys_of_every_form_and_cut_short() {
    let line = "MIIEowIBAAKCAQEA3Tz2mr7SZiAMfQyuvBjM9Oi8Bg4SPPmYy0Vq8gk9Sx3d4fRk";
    let whole = |text: &str| check(&format!("see {text}\nThanks a lot"), &[&format!("secret {text}")]);
    whole(&format!("-----BEGIN RSA PRIVATE KEY-----\n{line}\n-----END RSA PRIVATE KEY-----"));
    whole(&format!(
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\nComment: ann@shop.com\n\n{line}\n=aB3d\n-----END PGP PRIVATE KEY BLOCK-----"
    ));
    whole(&format!("-----BEGIN RSA PRIVATE KEY-----\n{line}\n{line}\nq8gk9S"));
    whole(&format!("-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\n\n{line}"));
    whole(&format!("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0F\n\n{line}\n{line}"));
    whole(&format!(r"-----BEGIN PRIVATE KEY-----\n{line}\n{line}"));
    let long = format!("{line}\n").repeat(400);
    whole(&format!("-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{long}-----END PGP PRIVATE KEY BLOCK-----"));
    check(&format!("-----BEGIN PRIVATE KEY-----\n{line}..."), &[&format!("secret -----BEGIN PRIVATE KEY-----\n{line}")]);
    check("A key begins with -----BEGIN PRIVATE KEY----- and then has lines", &[]);
    check(&format!("-----BEGIN PUBLIC KEY-----\n{line}\n-----END PUBLIC KEY-----"), &[]);
}

#[test]
fn keys_of_providers() {
    let rest = "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z";
    for prefix in [
        "sk-ant-",
        "sk-",
        "xai-",
        "hvs.",
        "gsk_",
        "hf_",
        "glpat-",
        "npm_",
        "pypi-",
        "dop_v1_",
        "shpat_",
        "AIza",
        "ya29.",
        "ghp_",
        "github_pat_",
    ] {
        check(&format!("use {prefix}{rest} now"), &[&format!("secret {prefix}{rest}")]);
    }
    check("xai-grok, hvs.yaml, xai-grok-4-fast-reasoning-latest", &[]);
}

#[test]
fn keys_without_a_digit() {
    let token = "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";
    for text in [format!("use {token} now"), format!("HF_TOKEN={token}"), format!("{{\"token\": \"{token}\"}}")] {
        check(&text, &[&format!("secret {token}")]);
    }
    check("glpat-GYJnGxeYYXwSLQcWtxJT", &["secret glpat-GYJnGxeYYXwSLQcWtxJT"]);
    check("hf_hub_download_and_cache_everything_here, hf_HubDownloadAndCacheThem, npm_config_registry_of_this_folder", &[]);
}

#[test]
fn passwords_of_words_and_in_quotes() {
    check("password: letmeinplease", &["secret letmeinplease"]);
    check("user: bob, password: letmeinplease, thanks", &["secret letmeinplease"]);
    check("PASSWORD=letmeinplease\nX=1", &["secret letmeinplease"]);
    check(r#"password: "ab,C9xyz,kk""#, &["secret ab,C9xyz,kk"]);
    check(r#"{'password': 'hunter two 2'} or"#, &["secret hunter two 2"]);
    check(r#"say {\"password\": \"hunter two 2\"} twice"#, &["secret hunter two 2"]);
    check(r#"secret: "p4ss,Word""#, &["secret p4ss,Word"]);
    for text in [
        "password: required",
        "Password: incorrect.",
        "password: the one you chose",
        "password: \"the one you chose\"",
        "the password is incorrect",
        "password: anything you like",
        "Password: Instructions\n",
        "# Password: resetting\n",
        "password: string;",
        "secret: \"my-tls-secret\"",
        "print(\"Password: \" + prompt + \" ok\")",
        "input(\"Password: \") or \"x\"",
        "label=\"Password:\", text=\"Enter it\"",
        "<input type=\"password\" name=\"pw1\">",
    ] {
        check(text, &[]);
    }
}

#[test]
fn code_after_a_password_is_no_password() {
    for code in [
        "hashlib.sha256(password).hexdigest()",
        "os.environ[\"DB_PASS1\"]",
        "os.getenv('DB_PASS1')",
        "getpass()",
        "getpass.getpass(\"Password 1: \")",
        "config.password",
        "config.db2.password",
        "process.env.DB_PASS1",
        "None",
        "row[3]",
        "''.join(random.choice(chars) for _ in range(12))",
        "secrets.token_urlsafe(16)",
    ] {
        check(&format!("password = {code}"), &[]);
        check(&format!("connect(password={code})"), &[]);
    }
    check("fn login(password: &str) and def login(password: str=None)", &[]);
    check("password = Summer.2024, password = hunter(2", &["secret Summer.2024", "secret hunter(2"]);
}

#[test]
fn words_in_one_say_what_comes_next() {
    check("dbPassword: \"Sup3rS3cret!x\"", &["secret Sup3rS3cret!x"]);
    check("clientSecret: \"a8Q~x9Kd82LmPq7RtZ\"", &["secret a8Q~x9Kd82LmPq7RtZ"]);
    check("AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1==", &["secret Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1=="]);
    check("phoneNumber: 4155550132, orderId: 4155550132", &["phone 4155550132"]);
    check("my iPhone 4155550, passwordField: input1!", &[]);
}

#[test]
fn slices_and_long_macs_are_no_addresses() {
    check("xs[0::2] l[1::2], a[3::10] + s[a::2] + f(x)[100::2] + ys[1000::10]", &[]);
    check("02:1a:2b:ff:fe:3c:4d:5e", &[]);
    check("fe80::1, 2001:db8::1, http://[2001::1]/, [fe80::1]:80", &["ip fe80::1", "ip 2001:db8::1", "ip 2001::1", "ip fe80::1"]);
    check("2001:db8:0:1:2:3:4:5 and 1:2::3", &["ip 2001:db8:0:1:2:3:4:5", "ip 1:2::3"]);
}

#[test]
fn only_a_word_right_before_makes_a_version() {
    check("Build agent 203.0.113.77 failed", &["ip 203.0.113.77"]);
    check("release server is 198.51.100.23 now", &["ip 198.51.100.23"]);
    check("version 1.2.3.4, v1.2.3.4, build 1.2.3.4; release 10.0.0.1, version: \"4.3.2.1\", version is 1.2.3.4", &[]);
    check("versions 1.2.3.4 and 5.6.7.8", &[]);
    let found = scan("tool 1.2.3.4", Hint::of_key("version"), &Known::default());
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn mathematics_and_code_stay() {
    for text in [
        "bits 0010 1101 0111",
        "0110 1001 + 0011 0101 = ?",
        "00 01 10 11 00 01",
        "row: 00 11 22 33 44",
        "sequence 01 02 03 04 05 06 07 08",
        "x = +12345678",
        "+10000000 units, balance +1500000000",
        "section 4.1.2.3 of the spec, Chapter 10.2.3.4",
        "CPython 3.11.7.1 and libc 2.31.0.4",
        "OID 1.3.6.1, 0.1.2.3",
    ] {
        check(text, &[]);
    }
    // What is said to be one, or looks like nothing else, still is.
    check("phone +12345678 or 01 02 03 04 05", &["phone +12345678", "phone 01 02 03 04 05"]);
    check("06 12 34 56 78 and 01 10 22 33 40", &["phone 06 12 34 56 78", "phone 01 10 22 33 40"]);
    check("redis 10.0.0.5, python server 8.8.4.4", &["ip 10.0.0.5", "ip 8.8.4.4"]);
}

#[test]
fn things_have_names_too() {
    let is_found = |name: &str| !scan(name, Hint::of_key("name"), &Known::default()).is_empty();
    for thing in ["Wireless Mouse", "Quick Sort", "Blue Widget", "New York", "Grand Hotel", "Acme Corp", "Weather API"] {
        assert!(!is_found(thing), "{thing}");
    }
    for person in ["Zebulon Quackenbush", "Oluwaseun Adebayor", "Ann Miller", "Minho Park", "Nguyen Thi Hoa", "Peter Store"] {
        assert!(is_found(person), "{person}");
    }
}

#[test]
fn labels_in_markdown_introduce_names() {
    check("**Name:** Oluwaseun Adebayor", &["name Oluwaseun Adebayor"]);
    check("- **Customer name**: Oluwaseun Adebayor", &["name Oluwaseun Adebayor"]);
    check("__Name__: Oluwaseun", &["name Oluwaseun"]);
    check("**File name:** notes.txt, name: **Parser, **Name:** unknown", &[]);
}

#[test]
fn a_title_behind_a_greeting_is_no_name() {
    for title in ["Mr.", "Mrs.", "Ms.", "Dr.", "Prof.", "Mr", "Dr", "Herr", "Herr Dr."] {
        for greeting in ["Dear", "Hi", "Hello"] {
            check(&format!("{greeting} {title} Yefremov, Yefremov wrote."), &["name Yefremov", "name Yefremov"]);
        }
        check(&format!("My name is {title} Faina Yefremova."), &["name Faina Yefremova"]);
    }
    check("Dear Mr. and Mrs. Yefremov,", &["name Yefremov"]);
    check("Dear Dr. J. Yefremov-Smith:", &["name J. Yefremov-Smith"]);
    check("Dear Mr. van der Helsing,", &["name van der Helsing"]);
}

#[test]
fn keys_in_other_text_introduce_names() {
    let fenced = "{\"first_name\": \"Qadir\", \"last_name\": \"Zubkov\", \"full_name\": \"Faina Yefremova\"}";
    let expected = ["name Qadir", "name Zubkov", "name Faina Yefremova"];
    check(&format!("Result:\n```json\n{fenced}\n```"), &expected);
    check(&format!("Result: {}", fenced.replace('"', "\\\"")), &expected);
    check(&format!("Result: {}", fenced.replace('"', "'")), &expected);
    check("Result: {\"first_name\": \"Qadir\", \"last_name\": \"Zubk", &["name Qadir", "name Zubk"]);
    check("got {\"name\":\"Zebulon Quackenbush\",\"firstName\":\"Zebulon\"", &["name Zebulon Quackenbush", "name Zebulon"]);
    check("last_name=Zubkov, lastName = 'Zubkov', user_name=\"Zubkov\"", &["name Zubkov", "name Zubkov", "name Zubkov"]);
    check("see https://x.com/?name=Qadir+Zubkov&x=1 or /find?last_name=Zubkov.", &["name Qadir+Zubkov", "name Zubkov"]);
    check("/find?a=1&full_name=Qadir%20M%C3%BCller#x", &["name Qadir%20M%C3%BCller"]);
    check(
        "Result: {\"phone\":4155550132, \"x\": [\"phone\", 1], \"mobile\":4155550132}",
        &["phone 4155550132", "phone 4155550132"],
    );
    check("got {\"phones\":[4155550132,4155550133],\"total\"", &["phone 4155550132", "phone 4155550133"]);
    // However it is written, it is one person.
    let name = |text: &str| anonymiser().text(text).into_owned();
    let (plus, code) = (name("/?name=Qadir+Zubkov"), name("/?name=Qadir%20Zubkov"));
    assert_eq!(plus.replace("/?name=", "").replace('+', " "), name("Mr. Qadir Zubkov").replace("Mr. ", ""));
    assert_eq!(plus.replace('+', "%20"), code);
    for text in [
        "got {\"name\": \"search\", \"tool_name\": \"Search\", \"file_name\": \"Makefile\", \"name\": \"Wireless Mouse\"",
        "got {'name': 'Search', 'type': 'Quick Sort', 'class_name': 'Parser', 'customer': None",
        "got {\"name\": {\"type\": \"string\"}, \"last_name\": \"string\", \"full_name\": {\"type\"",
        "first_name = Column(String), last_name = Faker.name(), lastName: Joi.string(), first_name = models.CharField()",
        "/find?name=Wireless+Mouse&tool_name=Search+Web&name=Parser",
        "name='Build', - name: 'Checkout', <input name=\"q\">, for name in names: x[\"name\"] = Parser",
    ] {
        check(text, &[]);
    }
}

#[test]
fn two_blanks_between_the_groups_of_a_card() {
    check("paid 4111  1111  1111  1111 today", &["card 4111  1111  1111  1111"]);
    check("3782  822463 10005", &["card 3782  822463 10005"]);
    check("phone 5551234  5559876", &["phone 5551234", "phone 5559876"]);
}

#[test]
fn names_and_addresses_by_context() {
    check("My name is Ann Miller. Later, Miller wrote.", &["name Ann Miller", "name Miller"]);
    check("Ask Dr. van Helsing or Mr. J. Smith", &["name van Helsing", "name J. Smith"]);
    check("Thanks,\nAnn", &["name Ann"]);
    check("I am German and this is Great", &[]);
    check("let name: Option<String> = None; name = Parser.new(); Dear Customer, Hi there, Thanks,\nThe Team", &[]);
    check(
        "Yesterday Jean-Luc Picard met Jennifer O. Garcia-Lopez and Pieter van der Berg today",
        &["name Jean-Luc Picard", "name Jennifer O. Garcia-Lopez", "name Pieter van der Berg"],
    );
    check(
        "Thomas Brown paid. Brown is gone. Order of Tim Cook 4155550132",
        &["name Thomas Brown", "name Brown", "name Tim Cook"],
    );
    check("808 Kálmán Imre u. 12., Gerrit Achterberghove 137, Anna Kerkstraat 4", &["address Kerkstraat 4"]);
    check("Heikki Virtanen, Miklos Hajdu", &["name Heikki Virtanen", "name Miklos Hajdu"]);
    check("San Francisco Bay, Robert Street, George Inc, John API, Peter and Will Go, JOHN SMITH, tim Cook", &[]);
    check("at 2450 Crown St, Springfield, IL 62704.", &["address 2450 Crown St, Springfield, IL 62704"]);
    check("P.O. Box 104", &["address P.O. Box 104"]);
}

#[test]
fn a_given_name_alone_is_a_person_where_it_is_called_or_listed() {
    check("Martha: You saved me!\nOskar: Did I, Martha?", &["name Martha", "name Oskar", "name Martha"]);
    check("Come back, Oskar! My son Lukas waits.", &["name Oskar", "name Lukas"]);
    check("There came Hannah, Anthony, Derek and Anna.", &["name Hannah", "name Anthony", "name Derek", "name Anna"]);
    check("Everyone calls me Zebulon, or just call me Zeb.", &["name Zebulon", "name Zeb"]);
    check("songs by Faina D. Yefremova and Zebulon Q. Quackenbush", &["name Faina D. Yefremova", "name Zebulon Q. Quackenbush"]);
    check(
        "Hartmut Hajdu saw Vojtěch Nový and Øyvind Jónsson",
        &["name Hartmut Hajdu", "name Vojtěch Nový", "name Øyvind Jónsson"],
    );
    check("Please call me ASAP, call me Monday. Adam is an optimizer, and so is Martin's. Take Vitamin D. Calcium helps.", &[]);
    check("See Appendix A. Results, Option B. Paris and the Smart TV S. Samsung", &[]);
}

#[test]
fn a_name_that_is_known_is_found_in_capitals_and_inside_of_other_names() {
    let after = |text: &str, expected: &[&str]| {
        let expected: Vec<String> = expected.iter().map(|name| format!("name {name}")).collect();
        let all: Vec<&str> = ["name Zebulon Quackenbush"].into_iter().chain(expected.iter().map(String::as_str)).collect();
        check(&format!("My name is Zebulon Quackenbush. {text}"), &all);
    };
    after("QUACKENBUSH owes", &["QUACKENBUSH"]);
    after("ask zebulon_quackenbush now", &["zebulon", "quackenbush"]);
    after("see zebulon.quackenbush, /files/quackenbush/x", &["zebulon", "quackenbush", "quackenbush"]);
    check("Ms. Brown has a brown dog. It is brown. ok", &["name Brown"]);
    let name =
        |text: &str| anonymiser().text(&format!("Mr. Miller {text}")).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let words = name("and MILLER");
    assert_eq!(words[1], words[3], "{words:?}");
}

#[test]
fn keys_of_json_say_what_values_are() {
    let found = |key: &str, text: &str| scan(text, Hint::of_key(key), &Known::default()).first().map(|found| found.kind);
    assert_eq!(found("phone", "5551234567"), Some(Kind::Phone));
    assert_eq!(found("order_id", "5551234567"), None);
    assert_eq!(found("ssn", "460899847"), Some(Kind::Ssn));
    assert_eq!(found("last_name", "Miller"), Some(Kind::Name));
    assert_eq!(found("name", "search"), None);
    for password in ["hunter2", "correcthorsebatterystaple", "hunter two 2", "ab,C9xyz,kk", "P@ss-word.com", "48291377"] {
        let all = scan(password, Hint::of_key("password"), &Known::default());
        assert_eq!(all, [hone_data::anonymise::Found { kind: Kind::Secret, range: 0..password.len() }], "{password}");
    }
    for said in ["required", "string", "This field is required.", "Must be at least 8 characters", "${DB_PASS1}", "********"] {
        assert_eq!(found("password", said), None, "{said}");
    }
    assert_eq!(found("password_changed_at", "1700000000"), None);
    assert_eq!(found("password_confirmation", "correct horse battery staple"), Some(Kind::Secret));
    assert_eq!(found("clientSecret", "correcthorsebatterystaple"), Some(Kind::Secret));
    assert_eq!(found("shipping_address", "12 Rose Lane, Oldtown"), Some(Kind::Address));
}

fn anonymiser() -> Anonymiser {
    Anonymiser::new(Key::new([7; 32]))
}

#[test]
fn generated_text_is_read_well_and_a_second_pass_finds_nothing() {
    let mut scores = Scores::new();
    for text in sample::planted(1, 2 << 20) {
        score(&mut scores, &text);
        let once = anonymiser().text(&text.text).into_owned();
        let mut second = anonymiser();
        assert_eq!(second.text(&once), once, "{:?}", text.text);
        assert_eq!(second.report().total(), 0);
    }
    for (kind, score) in &scores {
        println!("{kind}: recall {:.4} precision {:.4} {score:?}", score.recall(), score.precision());
    }
    let patterns = of_patterns(&scores);
    assert!(patterns.recall() >= 0.99 && patterns.precision() >= 0.95, "{patterns:?}");
}

#[test]
fn text_without_personal_data_stays() {
    let text = sample::plain(1, 8_000_000);
    let found: Vec<_> = find(&text).into_iter().map(|found| (found.kind, &text[found.range])).collect();
    assert!(found.is_empty(), "{found:?}");
    let plain =
        "Your parcel 12345 left on 2026-03-14 at 10:30. It costs $12.50, or 3 x 4.20 EUR. See https://shop.com/help?id=77.";
    assert_eq!(anonymiser().text(plain), plain);
}

/// How long they take beside prose is measured by `hone bench anonymise`.
#[test]
fn what_only_begins_comes_to_an_end() {
    for unit in sample::REPEATED {
        let text = unit.repeat((1 << 19) / unit.len());
        let ends: Vec<usize> = find(&text).into_iter().map(|found| found.range.end).collect();
        assert!(ends.is_sorted() && ends.last().is_none_or(|end| *end <= text.len()), "{unit:?}");
    }
}

fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("ann@shop.com".to_owned()),
        Just("+1 415 555 0132".to_owned()),
        Just("4111 1111 1111 1111".to_owned()),
        Just("GB82 WEST 1234 5698 7654 32".to_owned()),
        Just("86.121.97.248".to_owned()),
        Just("2001:db8::1".to_owned()),
        Just("460-89-9847".to_owned()),
        Just("my name is Ann J. Miller".to_owned()),
        Just("2450 Crown St, Oldtown".to_owned()),
        Just("password: hunter2".to_owned()),
        Just("https://a:b@c.de/".to_owned()),
        Just("phone ".to_owned()),
        Just("card ".to_owned()),
        Just("passport ".to_owned()),
        Just("ssn ".to_owned()),
        Just("Dear ".to_owned()),
        Just("Address: ".to_owned()),
        Just("key=".to_owned()),
        Just("\"last_name\": \"".to_owned()),
        Just("?name=Qadir+Zubkov".to_owned()),
        Just("Mr. ".to_owned()),
        "[0-9]{1,17}",
        "[A-Za-z]{1,8}",
        "[ .,:;@+()/%\\\\n\"'=<>-]{1,3}",
        "[\u{a0}\u{202f}\u{200b}\u{200d}\u{2011}\u{2013}\u{feff}\u{ad}]{1,2}",
        "[０-９＠．－＋ａ-ｚ]{1,3}",
        "\\PC{0,4}",
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

#[test]
fn what_nobody_sees_beside_a_pseudonym_changes_nothing() {
    for text in
        ["my name is Ann J. Millerann@shop.com\u{200b}0", "ann@shop.com\u{feff}\u{200b}1", "7\u{200d}+1 415 555 0132\u{200b}7"]
    {
        let once = anonymiser().text(text).into_owned();
        assert_eq!(anonymiser().text(&once), once, "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(3000)))]

    #[test]
    fn a_second_pass_finds_nothing(text in pieces()) {
        let once = anonymiser().text(&text).into_owned();
        let mut second = anonymiser();
        let twice = second.text(&once).into_owned();
        prop_assert_eq!(&twice, &once, "{}", text);
        prop_assert_eq!(second.report().total(), 0);
    }

    #[test]
    fn findings_are_in_order_and_inside_the_text(text in pieces()) {
        let mut from = 0;
        for found in find(&text) {
            prop_assert!(found.range.start >= from && found.range.end > found.range.start && text.get(found.range.clone()).is_some());
            from = found.range.end;
        }
    }
}
