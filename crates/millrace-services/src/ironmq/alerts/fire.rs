//! The rule by which alerts fire. Pure.

use super::super::settings::{Alert, AlertKind, Direction};

/// Returns true if an alert fires now that the size of its queue has changed.
pub(super) fn fires(alert: &Alert, before: u64, now: u64) -> bool {
    let trigger = alert.trigger.max(1);
    match (alert.kind, alert.direction) {
        (AlertKind::Fixed, Direction::Asc) => before < trigger && trigger <= now,
        (AlertKind::Fixed, Direction::Desc) => now <= trigger && trigger < before,
        (AlertKind::Progressive, Direction::Asc) => before / trigger < now / trigger,
        // The largest multiple below the size before; 0 is none.
        (AlertKind::Progressive, Direction::Desc) => {
            let multiple = before.saturating_sub(1) / trigger * trigger;
            multiple > 0 && now <= multiple
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fired(kind: AlertKind, direction: Direction, sizes: &[u64]) -> Vec<u64> {
        let (id, queue) = ("1".to_owned(), "alerts".to_owned());
        let alert = Alert { id, kind, direction, trigger: 10, queue, snooze_s: 0 };
        let pairs = sizes.windows(2).filter(|pair| fires(&alert, pair[0], pair[1]));
        pairs.map(|pair| pair[1]).collect()
    }

    #[test]
    fn a_fixed_alert_fires_when_its_trigger_is_reached_or_passed() {
        let (up, down) = (Direction::Asc, Direction::Desc);
        let sizes = [0, 9, 10, 11, 25, 10, 12, 9, 30, 5, 0];
        assert_eq!(fired(AlertKind::Fixed, up, &sizes), [10, 30]);
        assert_eq!(fired(AlertKind::Fixed, down, &sizes), [10, 9, 5]);
    }

    #[test]
    fn a_progressive_alert_fires_at_each_multiple() {
        let (up, down) = (Direction::Asc, Direction::Desc);
        let sizes = [0, 9, 10, 19, 20, 21, 45, 41, 40, 39, 31, 12, 10, 9, 0];
        assert_eq!(fired(AlertKind::Progressive, up, &sizes), [10, 20, 45]);
        assert_eq!(fired(AlertKind::Progressive, down, &sizes), [40, 12, 10]);
    }
}
