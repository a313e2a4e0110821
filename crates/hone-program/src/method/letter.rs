//! What the reference says of single letters and the standard library does not: which of them are digits, and which are the same
//! regardless of case. The tables are those of Unicode 14.

/// Whether a letter is a decimal digit of some script.
pub(super) fn is_decimal(letter: char) -> bool {
    if letter.is_ascii() { letter.is_ascii_digit() } else { is_in(&DECIMALS, letter) }
}

/// Whether a letter is a digit, in some script or raised, lowered or circled.
pub(super) fn is_digit(letter: char) -> bool {
    is_decimal(letter) || is_in(&DIGITS, letter)
}

/// Whether a letter says a number: a digit, a fraction, a numeral.
pub(super) fn is_numeric(letter: char) -> bool {
    letter.is_numeric() || NUMERALS.binary_search(&letter).is_ok()
}

/// What a text becomes when case does not count: the small form of its large form, except where scripts differ.
pub(super) fn case_fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\u{131}' => folded.push(letter),
            '\u{1e9e}' => folded.push_str("ss"),
            // Cherokee, of which the large letters are the older ones.
            '\u{13a0}'..='\u{13fd}' | '\u{ab70}'..='\u{abbf}' => folded.extend(letter.to_uppercase()),
            _ => folded.extend(letter.to_uppercase().flat_map(char::to_lowercase)),
        }
    }
    folded
}

/// Whether a letter is in one of these ranges, which are in order.
fn is_in(ranges: &[(char, char)], letter: char) -> bool {
    let idx = ranges.partition_point(|(_, last)| *last < letter);
    ranges.get(idx).is_some_and(|(first, _)| *first <= letter)
}

#[rustfmt::skip]
const DECIMALS: [(char, char); 62] = [
    ('\u{30}', '\u{39}'), ('\u{660}', '\u{669}'), ('\u{6f0}', '\u{6f9}'), ('\u{7c0}', '\u{7c9}'), ('\u{966}', '\u{96f}'),
    ('\u{9e6}', '\u{9ef}'), ('\u{a66}', '\u{a6f}'), ('\u{ae6}', '\u{aef}'), ('\u{b66}', '\u{b6f}'), ('\u{be6}', '\u{bef}'),
    ('\u{c66}', '\u{c6f}'), ('\u{ce6}', '\u{cef}'), ('\u{d66}', '\u{d6f}'), ('\u{de6}', '\u{def}'), ('\u{e50}', '\u{e59}'),
    ('\u{ed0}', '\u{ed9}'), ('\u{f20}', '\u{f29}'), ('\u{1040}', '\u{1049}'), ('\u{1090}', '\u{1099}'),
    ('\u{17e0}', '\u{17e9}'), ('\u{1810}', '\u{1819}'), ('\u{1946}', '\u{194f}'), ('\u{19d0}', '\u{19d9}'),
    ('\u{1a80}', '\u{1a89}'), ('\u{1a90}', '\u{1a99}'), ('\u{1b50}', '\u{1b59}'), ('\u{1bb0}', '\u{1bb9}'),
    ('\u{1c40}', '\u{1c49}'), ('\u{1c50}', '\u{1c59}'), ('\u{a620}', '\u{a629}'), ('\u{a8d0}', '\u{a8d9}'),
    ('\u{a900}', '\u{a909}'), ('\u{a9d0}', '\u{a9d9}'), ('\u{a9f0}', '\u{a9f9}'), ('\u{aa50}', '\u{aa59}'),
    ('\u{abf0}', '\u{abf9}'), ('\u{ff10}', '\u{ff19}'), ('\u{104a0}', '\u{104a9}'), ('\u{10d30}', '\u{10d39}'),
    ('\u{11066}', '\u{1106f}'), ('\u{110f0}', '\u{110f9}'), ('\u{11136}', '\u{1113f}'), ('\u{111d0}', '\u{111d9}'),
    ('\u{112f0}', '\u{112f9}'), ('\u{11450}', '\u{11459}'), ('\u{114d0}', '\u{114d9}'), ('\u{11650}', '\u{11659}'),
    ('\u{116c0}', '\u{116c9}'), ('\u{11730}', '\u{11739}'), ('\u{118e0}', '\u{118e9}'), ('\u{11950}', '\u{11959}'),
    ('\u{11c50}', '\u{11c59}'), ('\u{11d50}', '\u{11d59}'), ('\u{11da0}', '\u{11da9}'), ('\u{16a60}', '\u{16a69}'),
    ('\u{16ac0}', '\u{16ac9}'), ('\u{16b50}', '\u{16b59}'), ('\u{1d7ce}', '\u{1d7ff}'), ('\u{1e140}', '\u{1e149}'),
    ('\u{1e2f0}', '\u{1e2f9}'), ('\u{1e950}', '\u{1e959}'), ('\u{1fbf0}', '\u{1fbf9}'),
];

/// Digits that are no decimal ones.
#[rustfmt::skip]
const DIGITS: [(char, char); 20] = [
    ('\u{b2}', '\u{b3}'), ('\u{b9}', '\u{b9}'), ('\u{1369}', '\u{1371}'), ('\u{19da}', '\u{19da}'), ('\u{2070}', '\u{2070}'),
    ('\u{2074}', '\u{2079}'), ('\u{2080}', '\u{2089}'), ('\u{2460}', '\u{2468}'), ('\u{2474}', '\u{247c}'),
    ('\u{2488}', '\u{2490}'), ('\u{24ea}', '\u{24ea}'), ('\u{24f5}', '\u{24fd}'), ('\u{24ff}', '\u{24ff}'),
    ('\u{2776}', '\u{277e}'), ('\u{2780}', '\u{2788}'), ('\u{278a}', '\u{2792}'), ('\u{10a40}', '\u{10a43}'),
    ('\u{10e60}', '\u{10e68}'), ('\u{11052}', '\u{1105a}'), ('\u{1f100}', '\u{1f10a}'),
];

/// Letters that are numbers as well: the numerals of Chinese.
#[rustfmt::skip]
const NUMERALS: [char; 81] = [
    '\u{3405}', '\u{3483}', '\u{382a}', '\u{3b4d}', '\u{4e00}', '\u{4e03}', '\u{4e07}', '\u{4e09}', '\u{4e5d}', '\u{4e8c}',
    '\u{4e94}', '\u{4e96}', '\u{4ebf}', '\u{4ec0}', '\u{4edf}', '\u{4ee8}', '\u{4f0d}', '\u{4f70}', '\u{5104}', '\u{5146}',
    '\u{5169}', '\u{516b}', '\u{516d}', '\u{5341}', '\u{5343}', '\u{5344}', '\u{5345}', '\u{534c}', '\u{53c1}', '\u{53c2}',
    '\u{53c3}', '\u{53c4}', '\u{56db}', '\u{58f1}', '\u{58f9}', '\u{5e7a}', '\u{5efe}', '\u{5eff}', '\u{5f0c}', '\u{5f0d}',
    '\u{5f0e}', '\u{5f10}', '\u{62fe}', '\u{634c}', '\u{67d2}', '\u{6f06}', '\u{7396}', '\u{767e}', '\u{8086}', '\u{842c}',
    '\u{8cae}', '\u{8cb3}', '\u{8d30}', '\u{9621}', '\u{9646}', '\u{964c}', '\u{9678}', '\u{96f6}', '\u{f96b}', '\u{f973}',
    '\u{f978}', '\u{f9b2}', '\u{f9d1}', '\u{f9d3}', '\u{f9fd}', '\u{20001}', '\u{20064}', '\u{200e2}', '\u{20121}',
    '\u{2092a}', '\u{20983}', '\u{2098c}', '\u{2099c}', '\u{20aea}', '\u{20afd}', '\u{20b19}', '\u{22390}', '\u{22998}',
    '\u{23b1b}', '\u{2626d}', '\u{2f890}',
];
