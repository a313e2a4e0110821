//! Who writes the mails and what about: people with roles and addresses, vendors, projects.
//!
//! All addresses are at domains that are reserved for examples.

use hone_trace::Draws;
use std::fmt;

/// Everybody and everything that mails speak of.
pub(super) struct Cast {
    /// Whose mailbox it is.
    pub(super) owner: Person,
    pub(super) colleagues: Vec<Person>,
    pub(super) vendors: Vec<Vendor>,
    pub(super) projects: Vec<&'static str>,
}

#[derive(Clone, PartialEq)]
pub(super) struct Person {
    pub(super) first: &'static str,
    pub(super) last: &'static str,
    pub(super) role: &'static str,
}

pub(super) struct Vendor {
    pub(super) name: &'static str,
    contact: Person,
}

impl Cast {
    pub(super) fn draw(seed: u64) -> Self {
        let mut draws = Draws::new(seed, &["inbox", "cast"]);
        let shuffled = |draws: &mut Draws, words: &'static str| {
            let mut words = list(words);
            draws.shuffle(&mut words);
            words
        };
        let (roles, n_vendors) = (list(ROLES), list(VENDORS).len());
        let (firsts, lasts) = (shuffled(&mut draws, FIRST_NAMES), shuffled(&mut draws, LAST_NAMES));
        // Every first name is used once, so that a signature with the first name alone says who it is.
        let mut people: Vec<Person> =
            firsts.into_iter().zip(lasts).map(|(first, last)| Person { first, last, role: draws.pick::<&str>(&roles) }).collect();
        let mut contacts = people.split_off(people.len() - n_vendors);
        contacts.iter_mut().for_each(|contact| contact.role = "Accounts");
        let owner = people.remove(0);
        let vendors = shuffled(&mut draws, VENDORS).into_iter().zip(contacts);
        Self {
            owner,
            colleagues: people,
            vendors: vendors.map(|(name, contact)| Vendor { name, contact }).collect(),
            projects: shuffled(&mut draws, PROJECTS),
        }
    }

    pub(super) fn colleague(&self, draws: &mut Draws) -> &Person {
        draws.pick(&self.colleagues)
    }

    /// Two different colleagues.
    pub(super) fn pair(&self, draws: &mut Draws) -> (&Person, &Person) {
        let first_idx = draws.below(self.colleagues.len());
        let step = 1 + draws.below(self.colleagues.len() - 1);
        (&self.colleagues[first_idx], &self.colleagues[(first_idx + step) % self.colleagues.len()])
    }
}

impl Person {
    pub(super) fn address(&self) -> String {
        format!("{self} <{}.{}@example.com>", self.first.to_lowercase(), self.last.to_lowercase())
    }
}

impl fmt::Display for Person {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.first, self.last)
    }
}

impl Vendor {
    pub(super) fn address(&self) -> String {
        let domain: String = self.name.to_lowercase().split(' ').collect::<Vec<_>>().join("-");
        format!("{} <{}.{}@{domain}.example>", self.contact, self.contact.first.to_lowercase(), self.contact.last.to_lowercase())
    }

    /// How its mails end.
    pub(super) fn signature(&self) -> String {
        format!("Kind regards\n{}\nAccounts, {}", self.contact, self.name)
    }
}

fn list(words: &'static str) -> Vec<&'static str> {
    words.split(", ").collect()
}

const FIRST_NAMES: &str = "\
    Amara, Anton, Beatriz, Boris, Carla, Cedric, Chiara, Daniel, Dilara, Edith, Elias, Emeka, Farah, Felix, Freya, Gideon, \
    Greta, Hana, Hugo, Ines, Ivan, Jasmin, Jonas, Kaito, Katja, Lars, Leila, Lucia, Marek, Mei, Milan, Nadia, Nils, Noor, \
    Olga, Oscar, Paula, Pedro, Priya, Quentin, Rafael, Rosa, Samir, Selma, Sofia, Stefan, Tamara, Theo, Uma, Viktor, \
    Wanda, Wei, Xenia, Yara, Yusuf, Zoe, Adele, Bruno, Clara, Dario, Esther, Florian, Gloria, Henrik, Irma, Julius, Kira, \
    Leon, Magda, Nora, Omar, Petra, Ramon, Silvia, Tobias, Ulrike, Vera, Walid, Yvonne, Zeno";

const LAST_NAMES: &str = "\
    Adeyemi, Almeida, Bakker, Bauer, Beck, Bergstrom, Castell, Chandra, Conti, Dahl, Duarte, Eriksen, Falk, Farkas, \
    Ferrari, Fontaine, Fuchs, Galvan, Gruber, Haas, Hansen, Hoffmann, Horvat, Ibarra, Ivanov, Jansen, Kaya, Keller, \
    Kimura, Klein, Kovacs, Kruger, Lange, Larsen, Lehmann, Lindqvist, Lopes, Maier, Marino, Mensah, Moreau, Moser, \
    Nakamura, Novak, Nowak, Okafor, Olsen, Ortiz, Petrov, Pohl, Popescu, Quist, Ramos, Reyes, Richter, Rossi, Sato, \
    Schmid, Seidel, Silva, Simon, Sorensen, Steiner, Suzuki, Tanaka, Thorne, Toth, Urban, Vasquez, Vogel, Wagner, Walsh, \
    Weiss, Winter, Wolff, Yilmaz, Zeller, Ziegler, Zimmer, Zuber";

const ROLES: &str = "\
    Project Lead, Software Engineer, Data Analyst, Product Manager, Finance Controller, Office Manager, Designer, Quality \
    Engineer, Procurement, Legal Counsel, Sales Manager, Support Lead, Operations, Human Resources";

const VENDORS: &str = "\
    Alderbrook Supplies, Bluefin Logistics, Cobalt Print, Deltaware Hosting, Eastgate Catering, Fernhill Furniture, \
    Glasswing Optics, Harborline Freight, Ironleaf Tools, Juniper Cleaning, Kestrel Security, Lumen Lighting, Marlow \
    Translations, Northcape Travel, Oakridge Electronics, Pinecone Software, Quarry Construction, Redwood Training, \
    Silverline Telecom, Tidewater Energy";

const PROJECTS: &str = "\
    Atlas, Borealis, Cascade, Dynamo, Eclipse, Falcon, Granite, Horizon, Indigo, Javelin, Keystone, Lighthouse, Meridian, \
    Nimbus, Orchid, Paragon, Quasar, Riverbed, Sapphire, Tundra, Umbra, Vanguard, Willow, Xenon, Yellowstone, Zephyr, \
    Argon, Beacon, Compass, Driftwood, Ember, Foxglove, Glacier, Hazel, Ivory, Juno";
