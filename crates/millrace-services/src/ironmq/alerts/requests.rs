//! Requests about the alerts of a queue.

use millrace_broker::Definition;
use millrace_wire::Response;
use millrace_wire::ironmq::{self, Alert as AlertRequest, AlertsRequest, QueueWrapped, Version};

use super::super::queue_change::{check_together, new_alert_id};
use super::super::refusal::Refusal;
use super::super::settings::{Alert, IronSettings};
use super::super::{Change, IronMq, ProjectCall};

impl IronMq {
    pub(in crate::ironmq) async fn change_alerts(
        &self,
        call: &ProjectCall<'_>,
        name: &str,
        change: Change,
    ) -> Result<Response, Refusal> {
        let given = alerts_of(call)?;
        if given.is_none() && change != Change::Remove {
            return Err(call.missing("alerts"));
        }
        let is_about_all = given.is_none();
        let given = given.unwrap_or_default();
        let queue = self.queue(call, name)?;
        self.update(&queue, |definition: &mut Definition| {
            let mut iron = IronSettings::of(definition);
            match change {
                Change::Remove => {
                    let ids: Vec<&str> = given.iter().filter_map(|it| it.id.as_deref()).collect();
                    // A removal that names none is of all, as Go's client asks for it.
                    iron.alerts.retain(|alert| !is_about_all && !ids.contains(&&*alert.id));
                }
                Change::Add | Change::Replace => {
                    if change == Change::Replace {
                        iron.alerts.clear();
                    }
                    for it in &given {
                        iron.alerts.push(Alert::checked(it, new_alert_id())?);
                    }
                }
            }
            check_together(queue.key(), &definition.settings, &iron, false)?;
            iron.store(&mut definition.attributes)
        })
        .await?;
        Ok(ironmq::text(
            200,
            match change {
                Change::Add => "Alerts were added.",
                Change::Replace => "Alerts were replaced.",
                Change::Remove => "Alerts were deleted.",
            },
        ))
    }

    pub(in crate::ironmq) async fn delete_alert(
        &self,
        call: &ProjectCall<'_>,
        name: &str,
        id: &str,
    ) -> Result<Response, Refusal> {
        let queue = self.queue(call, name)?;
        self.update(&queue, |definition: &mut Definition| {
            let mut iron = IronSettings::of(definition);
            let before = iron.alerts.len();
            iron.alerts.retain(|alert| alert.id != id);
            if iron.alerts.len() == before {
                return Err(Refusal::new(404, "Alert not found"));
            }
            iron.store(&mut definition.attributes)
        })
        .await?;
        Ok(ironmq::text(200, "Alerts were deleted."))
    }
}

/// The alerts that a request names: at the top level, or in a queue object, as version 3 has them.
fn alerts_of<'a>(call: &ProjectCall<'a>) -> Result<Option<Vec<AlertRequest<'a>>>, Refusal> {
    if let Some(alerts) = call.body::<AlertsRequest<'a>>()?.alerts {
        return Ok(Some(alerts.0));
    }
    if call.version == Version::V1 {
        return Ok(None);
    }
    let queue = call.body::<QueueWrapped<'a>>()?.queue.unwrap_or_default();
    Ok(queue.alerts.map(|alerts| alerts.0))
}
