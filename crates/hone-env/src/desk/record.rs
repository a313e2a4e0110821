//! What the desk has on file for one scenario: a few orders, and a policy for each category of goods.

use super::vocabulary::{CITIES, Field, GOODS, NAMES, STATUSES, Topic};
use hone_trace::Draws;
use serde::{Deserialize, Serialize};

const N_ORDERS: usize = 3;

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Records {
    pub(crate) orders: Vec<Order>,
    pub(crate) policies: Vec<Policy>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) order: u32,
    pub(crate) item: String,
    pub(crate) category: String,
    pub(crate) status: String,
    pub(crate) city: String,
    pub(crate) total: String,
    pub(crate) name: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Policy {
    category: String,
    #[serde(rename = "return")]
    return_days: u32,
    #[serde(rename = "warranty")]
    warranty_months: u32,
    #[serde(rename = "fee")]
    fee_euros: u32,
}

impl Records {
    pub(crate) fn draw(draws: &mut Draws) -> Self {
        let mut orders: Vec<Order> = Vec::with_capacity(N_ORDERS);
        while orders.len() < N_ORDERS {
            let order = Order::draw(draws);
            if orders.iter().all(|other| other.order != order.order) {
                orders.push(order);
            }
        }
        Self { orders, policies: GOODS.iter().map(|(category, _)| Policy::draw(category, draws)).collect() }
    }

    pub(crate) fn order(&self, order: u32) -> Option<&Order> {
        self.orders.iter().find(|known| known.order == order)
    }

    pub(crate) fn policy(&self, category: &str) -> Option<&Policy> {
        self.policies.iter().find(|policy| policy.category.eq_ignore_ascii_case(category))
    }
}

impl Order {
    fn draw(draws: &mut Draws) -> Self {
        let (category, items) = draws.pick(&GOODS);
        let cents = draws.between(500, 99_999);
        Self {
            order: draws.between(1000, 9999) as u32,
            item: (*draws.pick(items)).to_owned(),
            category: (*category).to_owned(),
            status: (*draws.pick(&STATUSES)).to_owned(),
            city: (*draws.pick(&CITIES)).to_owned(),
            total: format!("{}.{:02}", cents / 100, cents % 100),
            name: (*draws.pick(&NAMES)).to_owned(),
        }
    }

    pub(crate) fn field(&self, field: Field) -> &str {
        match field {
            Field::Item => &self.item,
            Field::Category => &self.category,
            Field::Status => &self.status,
            Field::City => &self.city,
            Field::Total => &self.total,
            Field::Name => &self.name,
        }
    }
}

impl Policy {
    fn draw(category: &str, draws: &mut Draws) -> Self {
        Self {
            category: category.to_owned(),
            return_days: draws.between(7, 99) as u32,
            warranty_months: draws.between(3, 60) as u32,
            fee_euros: draws.between(2, 29) as u32,
        }
    }

    pub(crate) fn topic(&self, topic: Topic) -> u32 {
        match topic {
            Topic::Return => self.return_days,
            Topic::Warranty => self.warranty_months,
            Topic::Fee => self.fee_euros,
        }
    }
}
