//! Files of realistic code for benchmarks: varied functions until a number of lines is reached, and small edits of them.

use super::Language;
use hone_trace::Draws;

/// A file of at least `n_lines` lines in this language, fixed by the seed.
pub fn file(language: Language, n_lines: usize, seed: u64) -> String {
    let mut draws = Draws::new(seed, &["diff sample", language.name()]);
    let mut text = String::from(head(language));
    let mut n_functions = 0;
    while text.lines().count() < n_lines {
        let name = format!("{}_{}_{n_functions}", draws.pick(&VERBS), draws.pick(&NOUNS));
        let (template, item, field) = (*draws.pick(templates(language)), *draws.pick(&NOUNS), *draws.pick(&FIELDS));
        let (limit, step) = (draws.between(2, 97).to_string(), draws.between(3, 40).to_string());
        let body = template.replace("NAME", &name).replace("ITEM", item).replace("FIELD", field);
        let body = body.replace("LIMIT", &limit).replace("STEP", &step);
        text.push_str(&body);
        text.push('\n');
        n_functions += 1;
    }
    text
}

/// The same file with one new statement somewhere.
pub fn edited(language: Language, text: &str, seed: u64) -> String {
    let mut draws = Draws::new(seed, &["diff edit", language.name()]);
    let lines: Vec<&str> = text.lines().collect();
    let candidates: Vec<usize> = (0..lines.len()).filter(|&i| lines[i].contains(" = ") || lines[i].contains(" := ")).collect();
    if candidates.is_empty() {
        return text.to_owned();
    }
    let at = candidates[draws.below(candidates.len())];
    let mut out = String::with_capacity(text.len() + 64);
    for (i, line) in lines.iter().enumerate() {
        if i == at {
            let indent = &line[..line.len() - line.trim_start().len()];
            out.push_str(&format!("{indent}{}\n", statement(language, draws.between(2, 900))));
        }
        out.push_str(line);
        out.push('\n');
    }
    out
}

fn statement(language: Language, number: i64) -> String {
    match language {
        Language::Python => format!("offset = {number} + 1"),
        Language::JavaScript | Language::TypeScript => format!("const offset = {number} + 1;"),
        Language::Rust => format!("let offset = {number} + 1;"),
        Language::Go => format!("offset := {number} + 1"),
    }
}

const VERBS: [&str; 8] = ["load", "merge", "count", "format", "parse", "split", "rank", "check"];
const NOUNS: [&str; 8] = ["orders", "invoices", "users", "events", "prices", "tickets", "routes", "labels"];
const FIELDS: [&str; 6] = ["amount", "weight", "status", "owner", "score", "region"];

fn head(language: Language) -> &'static str {
    match language {
        Language::Python => "import math\nimport json\n\n",
        Language::JavaScript => "import { readFile } from 'fs';\n\n",
        Language::TypeScript => {
            "import { readFile } from 'fs';\n\ninterface Row { amount: number; weight: number; status: string; owner: string; score: number; region: string }\n\n"
        }
        Language::Rust => "use std::collections::HashMap;\n\n",
        Language::Go => "package sample\n\nimport (\n\t\"fmt\"\n\t\"strings\"\n)\n\n",
    }
}

fn templates(language: Language) -> &'static [&'static str] {
    match language {
        Language::Python => &PYTHON,
        Language::JavaScript => &JAVASCRIPT,
        Language::TypeScript => &TYPESCRIPT,
        Language::Rust => &RUST,
        Language::Go => &GO,
    }
}

const PYTHON: [&str; 3] = [
    r#"
def NAME(ITEM, limit=LIMIT):
    """Sum of the largest entries."""
    total = 0
    for index, row in enumerate(ITEM):
        if row["FIELD"] is None:
            continue
        if index >= limit:
            break
        total += row["FIELD"] * STEP
    return total / max(len(ITEM), 1)
"#,
    r#"
class NAME:
    def __init__(self, ITEM):
        self.ITEM = list(ITEM)
        self.FIELD = {}

    def add(self, key, value):
        if key in self.FIELD:
            raise KeyError(f"{key} is already there")
        self.FIELD[key] = value + STEP
        return self

    def report(self):
        # The largest first.
        rows = sorted(self.FIELD.items(), key=lambda pair: pair[1], reverse=True)
        return "\n".join(f"{key}: {value:.2f}" for key, value in rows[:LIMIT])
"#,
    r#"
def NAME(path, retries=STEP):
    result = []
    while retries > 0:
        try:
            with open(path) as handle:
                result = [json.loads(line) for line in handle if line.strip()]
            break
        except OSError as error:
            retries -= 1
            if retries == 0:
                raise RuntimeError(f"cannot read {path}") from error
    return [row for row in result if row.get("FIELD", 0) > LIMIT]
"#,
];

const JAVASCRIPT: [&str; 2] = [
    r#"
export function NAME(ITEM, limit = LIMIT) {
  let total = 0;
  for (const [index, row] of ITEM.entries()) {
    if (row.FIELD === undefined) continue;
    if (index >= limit) {
      break;
    }
    total += row.FIELD * STEP;
  }
  return total / Math.max(ITEM.length, 1);
}
"#,
    r#"
export async function NAME(path, retries = STEP) {
  // Several tries, then the error of the last one.
  for (let attempt = 0; attempt < retries; attempt += 1) {
    try {
      const text = await readFile(path, 'utf8');
      const rows = text.split('\n').map((line) => JSON.parse(line));
      return rows.filter((row) => row.FIELD > LIMIT).map((row) => ({ ...row, FIELD: row.FIELD + 1 }));
    } catch (error) {
      if (attempt + 1 === retries) throw new Error(`cannot read ${path}: ${error.message}`);
    }
  }
  return [];
}
"#,
];

const TYPESCRIPT: [&str; 2] = [
    r#"
export function NAME(ITEM: Row[], limit: number = LIMIT): number {
  let total = 0;
  for (const row of ITEM) {
    if (row.FIELD === undefined) continue;
    if (total >= limit) {
      break;
    }
    total += Number(row.FIELD) * STEP;
  }
  return total / Math.max(ITEM.length, 1);
}
"#,
    r#"
export class NAME<T extends Row> {
  private readonly ITEM: Map<string, T> = new Map();

  add(key: string, row: T): this {
    if (this.ITEM.has(key)) {
      throw new Error(`${key} is already there`);
    }
    this.ITEM.set(key, row);
    return this;
  }

  top(count: number = LIMIT): T[] {
    const rows = [...this.ITEM.values()].sort((a, b) => b.weight - a.weight);
    return rows.slice(0, count).filter((row) => row.amount > STEP);
  }
}
"#,
];

const RUST: [&str; 2] = [
    r#"
pub fn NAME(ITEM: &[(String, f64)], limit: usize) -> Result<f64, String> {
    if ITEM.is_empty() {
        return Err(format!("no {} to add up", "FIELD"));
    }
    let mut total = 0.0;
    for (index, (name, FIELD)) in ITEM.iter().enumerate() {
        if index >= limit || name.len() > LIMIT {
            break;
        }
        total += FIELD * STEP as f64;
    }
    Ok(total / ITEM.len() as f64)
}
"#,
    r#"
pub fn NAME(text: &str) -> HashMap<String, Vec<usize>> {
    // Words by the lines they occur in.
    let mut ITEM: HashMap<String, Vec<usize>> = HashMap::new();
    for (number, line) in text.lines().enumerate().skip(STEP) {
        for word in line.split_whitespace().filter(|word| word.len() < LIMIT) {
            let FIELD = word.to_lowercase();
            ITEM.entry(FIELD).or_default().push(number + 1);
        }
    }
    ITEM.retain(|_, lines| !lines.is_empty());
    ITEM
}
"#,
];

const GO: [&str; 2] = [
    r#"
func NAME(ITEM []float64, limit int) (float64, error) {
	if len(ITEM) == 0 {
		return 0, fmt.Errorf("no %s to add up", "FIELD")
	}
	total := 0.0
	for index, FIELD := range ITEM {
		if index >= limit || index > LIMIT {
			break
		}
		total += FIELD * STEP
	}
	return total / float64(len(ITEM)), nil
}
"#,
    r#"
func NAME(text string) map[string][]int {
	// Words by the lines they occur in.
	ITEM := make(map[string][]int)
	for number, line := range strings.Split(text, "\n") {
		if number < STEP {
			continue
		}
		for _, word := range strings.Fields(line) {
			FIELD := strings.ToLower(word)
			if len(FIELD) < LIMIT {
				ITEM[FIELD] = append(ITEM[FIELD], number+1)
			}
		}
	}
	return ITEM
}
"#,
];
